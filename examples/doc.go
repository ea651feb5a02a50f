// SPDX-License-Identifier: Apache-2.0

// Package examples is the root of programs that run as they are, one for each question. Each has a main.go of at most
// 80 lines, which is the code to read and to copy; show.go beside it sets the scene and prints what happens. All of
// them bring a small server of their own, in memory; SIGNALBOX_REDIS=redis://host:6379 names a real one.
//
//	quickstart  what is there?
//	first       what is the shortest program with a lock? The README shows it.
//	basic       how does a database refuse a late writer? The README shows it.
//	setup       how does a program connect?
//	cron        how does a job run once, though several processes have a timer for it?
//	leader      how does one process of a service lead?
//	http        what does a handler reply while another request holds the lock?
//	idempotency how is a request that is sent twice done once?
//	workers     how is a pool bounded over all processes, and how does it stop?
//	fencing     how does an SQL database refuse a late writer?
//	cache       how is a cache filled by one caller of many?
//	money       how are two accounts locked without a deadlock?
//	barrier     how do processes begin each phase together?
//	partitions  how do consumers divide 64 partitions of a queue?
//	controller  how do processes divide thousands of names that come and go?
//	singletons  how do five pods run three jobs, each once?
//	asynq       how are a tenant's jobs bounded in asynq? A module of its own.
//	river       how are they in river, on Postgres? A module of its own: GOWORK=off go run .
//	adapters    which code puts a lock behind an interface of goose, certmagic, client-go or tusd?
//
// docs/how-to has a page for most of them.
package examples
