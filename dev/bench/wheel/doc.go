// SPDX-License-Identifier: Apache-2.0

// Package wheel compares the project's timing wheel with what else keeps many
// timeouts in a Go process. It has benchmarks only.
//
// # Usage
//
// In the folder bench, with benchstat for the table:
//
//	go test -run '^$' -bench . -count 10 ./wheel | tee wheel.txt
//	benchstat -col /impl wheel.txt
//
// # What is compared
//
//   - wheel: internal/timers, which reads no clock
//   - timers: internal/timers, the same wheel driven on real time; each Schedule reads
//     the clock, as those of the rivals below do
//   - afterfunc: time.AfterFunc, Reset and Stop
//   - timingwheel: github.com/RussellLuo/timingwheel, hierarchical wheels; it has no
//     Reset, so re-scheduling is Stop and AfterFunc, which allocates
//
// # Not measured
//
// Nothing is due while a benchmark runs, so what an implementation puts off until time
// passes is not part of the figures. Both wheel and time.Timer put off moving a
// timer that was postponed; the benchmarks named Earlier make the wheel move it. What
// the wheel puts off is in BenchmarkDriven of internal/timers.
package wheel
