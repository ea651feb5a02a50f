// SPDX-License-Identifier: Apache-2.0

/* What each script of package shards does at the server before it replies, in this order: reap, end drains, grant, balance. Part of
 * shards.pml and of spread.pml. The including file defines I (numbers of members), N (shards), BATCH (shards a script), kept, and what it
 * knows of a member: ended, takes, weight, has_room, has_begun; and of a shard: banned, waits. may_grant says whether free shards are
 * granted; end_drains, on_over, on_gone, on_grant, on_fit_none and the two marks of balance are what it does besides.
 *
 * The planned load of a member is what it owns, less what was requested of it, plus what is promised to it. It is stored, and
 * counted again at each poll of the member. Which of its shards is requested of a source makes no difference to what is promised:
 * here it is the last one.
 */

#define NONE I

/* The states of a member at the server. */
#define ABSENT 0
#define ALIVE 1
#define LEAVES 2      /* it gives all that it owns, and takes nothing */
#define OVER 3        /* its end has passed, and not all of its shards are reaped yet */

byte status[I];
byte load[I];
byte owner[N] = NONE;
bit requested[N];
byte promised[N] = NONE;  /* the member that a requested shard goes to when it is released */
bit by_hand[N];           /* the promise was made by hand */

/* Scratch variables, without meaning between two steps and not part of a state. */
hidden byte a; hidden byte b; hidden byte c; hidden byte e; hidden byte x;
hidden byte source; hidden byte taker; hidden byte budget;
hidden byte no_source; hidden byte no_taker; hidden byte moved;  /* balance: members that were tried, a bit each; a shard has moved */

#include "common.pml"

/* Who owns a shard when all that was asked for is released. */
#define planned(s) (requested[s] -> promised[s] : owner[s])
#define is_member(n) ((n) != NONE && status[n] != ABSENT && status[n] != OVER)

inline count(n) {
  load[n] = 0;
  for (a : 0 .. N-1) {
    if :: planned(a) == n -> load[n]++ :: else fi;
    if :: !kept(REQUESTED_ONCE) && requested[a] && owner[a] == n && load[n] > 0 -> load[n]-- :: else fi
  }
}

/* Among those that take, may have shard s, and were not tried, the one with the least load after one shard more; NONE if no member is left.
 * Any shard is N. */
#define after_one_more(n) ((2 * load[n] + 1) * weight(taker))
#define below_quota(n) (kept(BY_LOAD) || load[n] < even_part)
#define may_have(s, n) ((s) == N || !banned(s, n))
inline find_taker(s) {
  taker = NONE;
  for (e : 0 .. I-1) {
    if
    :: !takes(e) || !below_quota(e) || !has_room(e) || (no_taker & BIT(e)) || (kept(NEXT_TAKER) && !may_have(s, e)) -> skip
    :: else ->
       if :: taker == NONE -> taker = e
       :: else -> if :: after_one_more(e) < (2 * load[taker] + 1) * weight(e) -> taker = e :: else fi
       fi
    fi
  }
  if :: taker != NONE && !may_have(s, taker) -> taker = NONE :: else fi
}

/* The one that gives: a leaver first, then the one with the greatest load after one shard less. */
#define after_one_less(n) ((2 * load[n] - 1) * weight(source))
inline find_source() {
  source = NONE;
  for (e : 0 .. I-1) {
    if
    :: load[e] == 0 || (status[e] != ALIVE && status[e] != LEAVES) || (no_source & BIT(e)) -> skip
    :: else ->
       if
       :: source == NONE || (status[e] == LEAVES && status[source] != LEAVES) -> source = e
       :: source != NONE && (status[e] == LEAVES || status[source] != LEAVES) ->
          if :: after_one_less(e) > (2 * load[source] - 1) * weight(e) -> source = e :: else fi
       :: else
       fi
    fi
  }
}

inline grant(s, n) {
  owner[s] = n; requested[s] = 0; promised[s] = NONE; by_hand[s] = 0;
  trace("    shard %d is granted to member %d, load %d\n", s, n, load[n]);
  on_grant(s, n)
}

/* A shard has no owner any more: it goes to the member that it is promised to, or is free. */
inline hand_over(s) {
  x = promised[s];
  if
  :: x != NONE && (status[x] == ALIVE || !kept(NO_PROMISE_TO_THE_DEAD)) && may_have(s, x) -> grant(s, x)
  :: else ->
     if :: is_member(x) && load[x] > 0 -> load[x]-- :: else fi;
     owner[s] = NONE; requested[s] = 0; promised[s] = NONE; by_hand[s] = 0;
     trace("    shard %d is free\n", s, 0, 0)
  fi
}

/* A promise to n is turned over to another member, which moves nothing. */
inline turn_over(s) {
  x = promised[s]; promised[s] = taker;
  if :: x != NONE && load[x] > 0 -> load[x]-- :: else fi;
  if :: taker != NONE -> load[taker]++ :: else fi;
  trace("    the promise of shard %d to member %d is turned over to %d\n", s, x, taker)
}

inline request_shard(s) {
  requested[s] = 1; promised[s] = taker; load[source]--; load[taker]++;
  if :: !kept(REQUESTED_ONCE) && load[source] > 0 -> load[source]-- :: else fi;
  trace("    member %d is asked for shard %d, promised to %d\n", source, s, taker)
}

/* A shard that had an owner is moved by hand to member n. */
inline move(s, n) {
  if
  :: status[n] != ALIVE || !has_begun(n) || !has_room(n) || banned(s, n) || (owner[s] == n && !requested[s]) || promised[s] == n -> skip
  :: else ->
     taker = n;
     if
     :: owner[s] == NONE -> load[n]++; grant(s, n)
     :: owner[s] != NONE && !requested[s] -> source = owner[s]; request_shard(s); by_hand[s] = 1
     :: owner[s] != NONE && requested[s] -> turn_over(s); by_hand[s] = 1
     fi
  fi
}

/* 1. Of the members whose end has passed, some shards. From the first one on the member is over. */
inline reap(caller) {
  for (b : 0 .. I-1) {
    if
    :: b == caller || budget == 0 || status[b] == ABSENT || (status[b] != OVER && !ended(b)) -> skip
    :: else ->
       if :: status[b] != OVER -> status[b] = OVER; trace("    member %d is over\n", b, 0, 0); on_over(b) :: else fi;
       for (c : 0 .. N-1) {
         if :: owner[c] == b && budget > 0 -> hand_over(c); budget-- :: else fi
       }
       for (c : 0 .. N-1) {
         if :: promised[c] == b && budget > 0 && kept(NO_PROMISE_TO_THE_DEAD) -> find_taker(c); turn_over(c); budget-- :: else fi
       }
       x = 0;
       for (c : 0 .. N-1) {
         if :: owner[c] == b || (promised[c] == b && kept(NO_PROMISE_TO_THE_DEAD)) -> x = 1 :: else fi
       }
       if :: x == 0 -> status[b] = ABSENT; load[b] = 0; on_gone(b) :: else fi
    fi
  }
}

/* 2. Free shards, each to the member with the least load. */
inline grant_free() {
  for (c : 0 .. N-1) {
    if
    :: owner[c] == NONE && budget > 0 && may_grant && !waits(c) ->
       find_taker(c);
       if :: taker != NONE -> load[taker]++; grant(c, taker); budget-- :: else -> on_fit_none(c) fi
    :: else
    fi
  }
}

/* 3. While a move lowers the greatest load: a promise of the source is turned over, or else the source is asked for a shard. If the
 * taker is banned from all of them it tries the next taker, and then the next source. */
#define lowers ((2 * load[taker] + 1) * weight(source) < (2 * load[source] - 1) * weight(taker) + !kept(ONLY_IF_IT_LOWERS))
#define uneven (status[source] == LEAVES || (kept(BY_LOAD) -> lowers : load[source] > even_part))
#define helps (source != NONE && taker != NONE && taker != source && (uneven))
#define may_turn_over(s) (promised[s] == source && may_have(s, taker) && !(by_hand[s] && status[source] == ALIVE && kept(HAND_STAYS)))

/* A step of the source with the best taker, or with another one. */
inline move_one() {
  x = N;
  for (c : 0 .. N-1) { if :: may_turn_over(c) && kept(PROMISES_FIRST) -> x = c :: else fi };
  if
  :: x < N -> c = x; moved = 1; turn_over(c); turned_over_promise
  :: else ->
     do
     :: helps ->
        for (c : 0 .. N-1) { if :: owner[c] == source && !requested[c] && may_have(c, taker) -> x = c :: else fi };
        if
        :: x < N -> c = x; moved = 1; request_shard(c); requested_a_shard; break
        :: else -> no_taker = no_taker | BIT(taker); find_taker(N)
        fi
     :: else -> break
     od
  fi
}

inline balance() {
  do
  :: budget > 0 ->
     no_source = 0; moved = 0;
     do
     :: no_taker = 0; find_taker(N); find_source();
        if
        :: helps -> move_one()
        :: else
        fi;
        if
        :: moved || source == NONE || (!no_source && no_taker == 0) || !kept(NEXT_SOURCE) -> break
        :: else -> no_source = no_source | BIT(source)
        fi
     od;
     no_taker = 0; no_source = 0;
     if :: moved -> budget-- :: else -> break fi
  :: else -> break
  od
}

inline work(caller) {
  budget = BATCH;
  reap(caller); end_drains; grant_free(); balance()
}
