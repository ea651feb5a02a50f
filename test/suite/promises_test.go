// SPDX-License-Identifier: Apache-2.0

package suite_test

// Promises returns what is tried of each promise of docs/guarantees.md.
func Promises() []Promise {
	return []Promise{
		{Name: "P1/holders never take more than there is", Try: crowd},
		{Name: "P1/a crowd on bad wires", Try: badWires, Only: virtual},
		{Name: "P1/a crowd that gives up", Try: crowdThatGivesUp, Only: virtual},
		{Name: "P1/an idle hold is used once at a time", Try: keptWarm, Only: virtual, Not: only("no other kind is kept warm", "reentrant", "reentrant beside fair")},
		{Name: "P1/a carried lease enters its hold alone", Try: carried, Not: Kind.notEntered},
		{Name: "P2/a lease ends before its hold", Try: leaseEndsBeforeHold, Not: Kind.withoutLease},
		{Name: "P2/the next renewal reports a loss", Try: renewalReportsLoss, Not: Kind.withoutLease},
		{Name: "P2/a hold is renewed for hours", Try: renewedForHours, Only: virtual, Not: Kind.withoutLease},
		{Name: "P2/a hold outlives an outage", Try: outage, Only: virtual, Not: Kind.withoutLease},
		{Name: "P2/the first lease is short", Try: firstLease, Only: virtual, Not: Kind.wholeAtOnce},
		{Name: "P2/the wall clock is set", Try: wallClock, Only: virtual, Alone: true, Not: Kind.withoutLease},
		{Name: "P2/fixed leases and longest holds end", Try: boundedHolds, Only: virtual, Not: Kind.withoutLease},
		{Name: "P3/tokens rise", Try: tokensRise, Not: either(Kind.withoutTokens, Kind.withoutLease)},
		{Name: "P4/a waiter that gives up leaves nothing", Try: givenUp, Only: virtual},
		{Name: "P4/a call that gives up under each fault leaves nothing", Try: givenUpUnderFault, Only: virtual},
		{Name: "P4/Do releases whatever its function does", Try: doReleases, Not: Kind.notEntered},
		{Name: "P4/close leaves nothing", Try: closes, Not: Kind.withoutLease},
		{Name: "P4/close at any instant leaves nothing", Try: closesAnytime, Only: virtual, Not: Kind.withoutLease},
		{Name: "P5/each fault of each request", Try: faultOfAcquire, Only: virtual},
		{Name: "P5/each fault of a renewal", Try: faultOfRenewal, Only: virtual, Not: Kind.withoutLease},
		{Name: "P5/an unlock without a reply", Try: unlockWithoutReply, Only: virtual, Not: either(Kind.withoutError, Kind.withoutLease)},
		{Name: "P6/messages are lost", Try: lostMessages},
		{Name: "P6/a release at any instant is noticed at once", Try: noticed, Only: virtual},
		{Name: "P6/a hand-over takes one way there and one back", Try: handedOver, Only: virtual, Not: Kind.withoutTurns},
		{Name: "P6/a holder dies", Try: holderDies, Not: Kind.withoutLease},
		{Name: "P6/waiters die", Try: waitersDie, Slow: Kind.longDead},
		{Name: "P6/the server comes back empty", Try: serverEmpty, Only: virtual, Not: either(Kind.withoutLease, Kind.waitsALease)},
		{Name: "P6/waiters are served in their order", Try: order, Not: Kind.withoutOrder},
		{Name: "P6/no more wait than may", Try: tooMany, Only: virtual, Not: Kind.withoutLease},
		{Name: "P6/turns end", Try: turns, Only: virtual, Not: Kind.withoutTurns},
		{Name: "P7/cost of a free lock, of holds and of none", Try: cost, Only: virtual},
		{Name: "P7/waiting costs a poll a second", Try: waitCosts, Only: virtual},
		{Name: "P8/only its lease releases a hold", Try: onlyItsLease},
		{Name: "P8/a Locker is a sync.Locker", Try: lockers, Only: virtual, Not: Kind.notEntered},
		{Name: "P8/force ends a hold", Try: force, Not: Kind.unforced},
		{Name: "P9/names are kept apart", Try: names},
		{Name: "P9/a foreign key is left as it is", Try: foreignKey, Not: either(Kind.ofOthers, Kind.withoutLease)},
		{Name: "P10/a refusal is waited for in the server's words", Try: refusal, Only: virtual},
		{Name: "P10/a missing right is reported at once", Try: denial, Only: virtual},
		{Name: "P10/a wait that ends says why", Try: waitEnds, Only: virtual},
	}
}
