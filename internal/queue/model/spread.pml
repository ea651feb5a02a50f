// SPDX-License-Identifier: Apache-2.0

/* How the shards of a group are spread among its members: what the scripts of package shards decide, in work.pml, without messages and
 * without time. shards.pml is the model of who owns a shard. The file runs beside this one lists the checks; `make model` runs them.
 *
 * A poll and a release are one step each, and come in any order. So a drain may take any time, and any other thing happens
 * meanwhile. A member dies silently: first it is not heard any more, so that it takes nothing, then its end passes, and then
 * a poll of another member reaps it, a batch at a time.
 *
 * The plan of a shard is its owner, or the member it is promised to if it was asked for. Each change of the plan must lower the
 * number of shards that are planned for no living member, or else the sum of load * load / weight. Only a change of members raises
 * them, so a plan never returns without one. When a poll finds nothing to do the plan must be even.
 *
 * A shard whose drain is ended by force is released here like any other.
 *
 * Each rule can be dropped, -DDROP=<rule>, and then a run has to find what goes wrong without it.
 */

#ifndef I
#define I 3           /* members */
#endif
#ifndef N
#define N 4           /* shards */
#endif
#ifndef BATCH
#define BATCH 1       /* shards that a script moves at most */
#endif
#ifndef HEAVY
#define HEAVY 1       /* the weight of member 0; that of the others is 1 */
#endif
#ifndef MISCOUNTS
#define MISCOUNTS 0   /* how often a stored load becomes wrong */
#endif
#ifndef ELSEWHERE
#define ELSEWHERE 0   /* how often an owner releases a shard that it was not asked for */
#endif
#ifndef LIMIT
#define LIMIT N       /* the shards that a member takes at most */
#endif
#ifndef BANS
#define BANS 0        /* 1: what an owner releases unasked is kept from it for a while */
#endif
#ifndef MOVES
#define MOVES 0       /* how often shard 0 is moved by hand */
#endif

/* The rules that can be dropped. */
#define BY_LOAD 1                 /* shards go to the least load, and are asked of the greatest; no quota of ceil(N / M) decides */
#define NO_PROMISE_TO_THE_DEAD 2  /* a promise to a member that is over is turned over, and not honoured */
#define RECOUNT 3                 /* a poll counts the load of its member again */
#define REQUESTED_ONCE 4       /* a shard that was asked for is taken off its owner's load once */
#define ONLY_IF_IT_LOWERS 5       /* a shard is asked for only if that lowers the sum */
#define PROMISES_FIRST 6          /* a promise of the source is turned over before it is asked for a shard */
#define NEXT_TAKER 7              /* if the best taker may not have a shard, the next one may */
#define NEXT_SOURCE 8             /* if no taker may have a shard of the source, another member gives */
#define HAND_STAYS 9              /* a promise that was made by hand is not turned over while its member lives */
#define PLAN_IN_LIMIT 10          /* a member has its limit by what it is planned for; not by what it owns */
#define CHECK_AGAIN 11            /* a shard that each taker gave away is checked again after a while; not only when a ban ends */
#define DRAINS_IN_LIMIT 12        /* a member has its limit also by what it was asked for and has not released */
#ifndef DROP
#define DROP 0
#endif
#define kept(rule) (DROP != rule)

bit dead[I];              /* its process has died */
bit silent[I];            /* it was not heard from lately */
bit ends[I];              /* its end has passed */
byte miscounts;
byte elsewhere;
byte moves;
byte bans[N];             /* the members that gave it away and do not get it for a while, a bit each */
byte waiting[N];          /* no taker may have it: FRESH until a while has passed, then OLD if it waits still */
#define FRESH 1
#define OLD 2

/* Only the checks know these. */
byte uncounted;           /* the members that may have a wrong count, a bit each: they have not polled since */
bit calm;                 /* the last poll found nothing to do, and no member came or went since */
byte by_hand_to = I;      /* the member that shard 0 was moved to by hand, until it has it */
#define ANY 15
byte allowed = ANY;       /* asks that may still follow from the last change of members */

hidden byte members; hidden byte even_part; hidden byte unplanned; hidden byte before_unplanned; hidden short sum; hidden short before_sum;
hidden byte plan[N]; hidden byte counted[I]; hidden byte changed; hidden byte same; hidden byte i;

#define weight(n) ((n) == 0 -> HEAVY : 1)
#define ended(n) ends[n]
#define takes(n) (status[n] == ALIVE && !silent[n])
#define may_grant 1
#define owns(s, n) (owner[s] == n && !requested[s])
#define owned_by(n) (owns(0, n) + (N > 1 && owns(N-1, n)) + (N > 2 && owns(1, n)))
#define drains(s, n) (owner[s] == n && requested[s])
#define drained_by(n) (drains(0, n) + (N > 1 && drains(N-1, n)) + (N > 2 && drains(1, n)))
#define in_limit(planned, n) (LIMIT >= N || (planned) + (kept(DRAINS_IN_LIMIT) -> drained_by(n) : 0) < LIMIT)
#define has_room(n) in_limit((kept(PLAN_IN_LIMIT) -> load[n] : owned_by(n)), n)
#define banned(s, n) (BANS && (bans[s] & BIT(n)))
#define waits(s) waiting[s]
#define has_begun(n) 1
#define may_be_granted(s, n) (takes(n) && has_room(n) && !banned(s, n))
#define fits_one(s) (may_be_granted(s, 0) || may_be_granted(s, 1) || may_be_granted(s, I-1))
#define on_fit_none(s) \
  if \
  :: BANS && bans[s] != 0 -> \
     promise("broken: a shard waits only if no member may have it\n", !fits_one(s)); \
     find_taker(N); \
     if :: taker != NONE -> waiting[s] = FRESH; budget--; reached(7) :: else fi \
  :: else \
  fi
#define end_drains skip
#define on_grant(s, n) waiting[s] = 0; \
  promise("broken: a shard that was moved by hand goes to that member\n", \
    (s) != 0 || by_hand_to == NONE || by_hand_to == n || status[by_hand_to] != ALIVE); \
  if :: (s) == 0 -> by_hand_to = NONE :: else fi
#define forget_bans(n) bans[0] = bans[0] & ~BIT(n); bans[N/2] = bans[N/2] & ~BIT(n); bans[N-1] = bans[N-1] & ~BIT(n)
#define on_gone(n) forget_bans(n); dead[n] = 0; silent[n] = 0; ends[n] = 0
/* The bound of asks holds for one change alone, of an even group whose living members are all heard. A ban may cost one more. */
#define change(moves) changed = 1; allowed = (calm && HEAVY == 1 && !BANS -> (moves) : ANY); calm = 0
#define on_over(n) change(0)
#define requested_a_shard reached(1); if :: status[source] == ALIVE -> spend :: else fi
#define turned_over_promise reached(2); if :: status[source] == ALIVE -> spend :: else fi
#define spend promise("broken: no more shards move than the change of members needs\n", allowed > 0); \
  if :: allowed < ANY && allowed > 0 -> allowed-- :: else fi

#include "work.pml"

#define planned_for(s) ((planned(s) != NONE && status[planned(s)] == ALIVE) -> planned(s) : NONE)

/* The two numbers, and the plan, before and after a step. */
inline measure() {
  unplanned = 0; sum = 0; same = 1;
  for (i : 0 .. I-1) {
    x = 0;
    for (a : 0 .. N-1) { if :: planned_for(a) == i -> x++ :: else fi };
    promise("broken: no member has more than its limit\n", x <= LIMIT);
    sum = sum + x * x * (HEAVY / weight(i));
    x = 0;
    for (a : 0 .. N-1) { if :: owner[a] == i || planned_for(a) == i -> x++ :: else fi };
    promise("broken: no member has more functions than its limit\n", x <= LIMIT)
  }
  for (a : 0 .. N-1) {
    if :: planned_for(a) == NONE -> unplanned++ :: else fi;
    if :: plan[a] != planned_for(a) -> same = 0 :: else fi;
    plan[a] = planned_for(a)
  }
}

inline begin() {
  if :: by_hand_to != NONE && status[by_hand_to] != ALIVE -> by_hand_to = NONE :: else fi;
  measure(); before_unplanned = unplanned; before_sum = sum; changed = 0;
  members = 0; even_part = 0;
  for (a : 0 .. I-1) {
    if :: status[a] == ALIVE -> members++ :: else fi;
    if :: takes(a) -> even_part++ :: else fi
  }
  even_part = (even_part > 0 -> (N + even_part - 1) / even_part : N)
}

inline end() {
  measure();
  if
  :: changed || same || uncounted -> skip
  :: else -> promise("broken: a plan never returns without a change of members\n", \
       unplanned < before_unplanned || (unplanned == before_unplanned && sum < before_sum))
  fi
}

/* A poll of n has found nothing to do. Then each shard has an owner that can be asked, and the plan is even. */
#define better_by_a_move(p, q) (status[p] == ALIVE && status[q] == ALIVE && \
  in_limit(counted[q], q) && (2 * counted[q] + 1) * weight(p) < (2 * counted[p] - 1) * weight(q))
/* p has a shard that may be asked for, and that q may have. */
#define can_move(s, p, q) (owns(s, p) && !banned(s, q))
#define movable(p, q) ((!BANS && !MOVES) || can_move(0, p, q) || can_move(N/2, p, q) || can_move(N-1, p, q))
inline finds_nothing(n) {
  calm = (unplanned == 0);
  for (a : 0 .. N-1) {
    promise("broken: each shard has an owner in the end\n", (owner[a] != NONE -> status[owner[a]] != ABSENT : !fits_one(a) || waiting[a] == FRESH));
    if :: owner[a] == NONE -> reached(8) :: else fi                     /* no member may have it */
  }
  if
  :: uncounted == 0 ->
     reached(3);                                                        /* the plan is compared with the best spread */
     for (i : 0 .. I-1) { count_rows(i) };
     for (i : 0 .. I-1) {
       if :: silent[i] && !dead[i] && status[i] == ALIVE -> calm = 0 :: else fi;
       for (a : 0 .. I-1) {
         promise("broken: the plan is even\n", !better_by_a_move(i, a) || silent[a] || !movable(i, a));
         if :: better_by_a_move(i, a) -> calm = 0 :: else fi
       }
     }
  :: else -> calm = 0
  fi
}

/* The load by the rows, however the scripts count. */
inline count_rows(n) {
  counted[n] = 0;
  for (a : 0 .. N-1) { if :: planned(a) == n -> counted[n]++ :: else fi };
  if :: counted[n] != load[n] -> trace("    member %d has %d planned shards, and its load says %d\n", n, counted[n], load[n]) :: else fi
}

#define over_or_ended(n) (status[n] == OVER || (ends[n] && status[n] != ABSENT))
inline poll(n) {
  trace("member %d polls\n", n, 0, 0);
  silent[n] = 0; begin();
  uncounted = uncounted & ~BIT(n);
  if :: kept(RECOUNT) -> count(n) :: else fi;
  work(n);
  end();
  if
  :: budget == BATCH && !over_or_ended(0) && !over_or_ended(1) && !over_or_ended(I-1) && status[n] == ALIVE -> finds_nothing(n)
  :: else
  fi
}

inline release(s) {
  trace("member %d releases shard %d, which is promised to %d\n", owner[s], s, promised[s]);
  begin(); hand_over(s); end()
}

#define alive(n) ((status[n] == ALIVE || status[n] == LEAVES) && !dead[n] && !ends[n])

inline leaves_empty(n) {
  x = 1;
  for (a : 0 .. N-1) { if :: owner[a] == n || promised[a] == n -> x = 0 :: else fi };
  if :: x -> status[n] = ABSENT; load[n] = 0; uncounted = uncounted & ~BIT(n); on_gone(n); reached(4) :: else fi  /* a leaver is gone */
}

proctype Member(byte n) {
  do
  :: d_step { status[n] == ABSENT -> begin();
       trace("member %d joins\n", n, 0, 0);
       change((members > 0 -> N / (members + 1) : ANY));
       status[n] = ALIVE; silent[n] = 0 }
  :: d_step { alive(n) && status[n] == ALIVE -> trace("member %d leaves\n", n, 0, 0);
       change(0); status[n] = LEAVES }
  :: d_step { alive(n) -> poll(n) }
  :: d_step { alive(n) && status[n] == LEAVES -> leaves_empty(n) }
  :: d_step { alive(n) && alive(0) + alive(1) + alive(I-1) > 1 -> trace("member %d dies\n", n, 0, 0); dead[n] = 1 }  /* someone is left */
  :: d_step { (alive(n) || dead[n]) && !silent[n] && status[n] != OVER -> trace("member %d is silent\n", n, 0, 0);
       silent[n] = 1; if :: !dead[n] -> calm = 0; allowed = ANY :: else fi }
  :: d_step { dead[n] && silent[n] && !ends[n] -> trace("the end of member %d passes\n", n, 0, 0); ends[n] = 1 }
  :: d_step { moves < MOVES && status[n] == ALIVE && has_room(n) && !banned(0, n) && owner[0] != NONE && promised[0] != n && !owns(0, n) ->
       trace("shard 0 is moved to member %d by hand\n", n, 0, 0); reached(9);
       moves++; begin(); change(ANY); by_hand_to = n; move(0, n); end() }
  :: d_step { BANS && (bans[0] | bans[N/2] | bans[N-1]) & BIT(n) -> trace("the bans of member %d end\n", n, 0, 0);
       for (a : 0 .. N-1) { if :: bans[a] & BIT(n) -> waiting[a] = 0 :: else fi };
       forget_bans(n); calm = 0; allowed = ANY }
  :: d_step { miscounts < MISCOUNTS && alive(n) && load[n] > 0 -> trace("the load of member %d is wrong\n", n, 0, 0);
       miscounts++; load[n]--; uncounted = uncounted | BIT(n); calm = 0; allowed = ANY; reached(5) }
  od
}

proctype Shard(byte s) {
  do
  :: d_step { waiting[s] == FRESH -> waiting[s] = (kept(CHECK_AGAIN) -> 0 : OLD); trace("shard %d has waited for a while\n", s, 0, 0) }
  :: d_step { owner[s] != NONE && alive(owner[s]) && requested[s] -> release(s) }
  :: d_step { elsewhere < ELSEWHERE && owner[s] != NONE && alive(owner[s]) && !requested[s] && status[owner[s]] == ALIVE ->
       trace("the function of shard %d wants it elsewhere\n", s, 0, 0);
       elsewhere++; load[owner[s]]--; begin(); change(ANY);
       if :: BANS -> bans[s] = bans[s] | BIT(owner[s]) :: else fi;
       hand_over(s); end(); reached(6) }
  od
}

init {
  atomic {
    for (i : 0 .. I-1) { run Member(i) }
    for (i : 0 .. N-1) { run Shard(i) }
  }
}
