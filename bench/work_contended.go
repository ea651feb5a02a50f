// SPDX-License-Identifier: Apache-2.0

package main

// oneProcess is 64 goroutines of one process that want one lock.
func oneProcess(b *bench) ([]table, error) {
	all, err := b.contended(sharing(1, 64))
	return []table{b.loopTable("64 goroutines of one process, one lock", all)}, err
}

// eightProcesses is eight processes that want one lock, with one goroutine each and with 16.
func eightProcesses(b *bench) ([]table, error) {
	single, err := b.contended(sharing(8, 1))
	if err != nil {
		return nil, err
	}
	many, err := b.contended(sharing(8, 16))
	return []table{
		b.loopTable("8 processes, one lock, 1 goroutine each", single),
		b.loopTable("8 processes, one lock, 16 goroutines each", many),
	}, err
}

// contended measures a crew that wants one lock.
func (b *bench) contended(c crew) ([]series, error) {
	return b.interleave(locks(b.chosen), b.scale.contendedRounds, func(impl implementation) (sample, error) {
		return b.closedLoop(impl, c, b.scale.contended)
	})
}
