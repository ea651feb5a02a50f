// SPDX-License-Identifier: Apache-2.0

/* The outcome of a once, as once/do.go and scripts/once/store describe it: a key beside the claim, which is the hold of a fair lock. The file
 * runs beside this one lists the checks; `make model` runs them.
 *
 * One key, one period, one server, some calls that get the claim one after the other. The model chooses when a call gets it: whenever
 * it is free. A hold may be lost at any time, by its end, by force, or with its process, and its call may not know of that. The
 * message that stores may be late, lost, overtaken or delivered twice, and so may its reply be lost.
 *
 * Each rule can be dropped, -DDROP=<rule>, and then a run has to find what goes wrong without it.
 */

#ifndef C
#define C 3           /* calls */
#endif
#ifndef M
#define M 2           /* messages in flight at a time */
#endif
#ifndef LOSE
#define LOSE 0        /* how often the key of the outcome is lost, or forgotten */
#endif

/* The rules that can be dropped. */
#define COMPARE 1     /* the store compares the holder key */
#define READ_FIRST 2  /* a call that got the claim reads the outcome before it runs the function */
#define CONFIRM 3     /* a call returns its own value only if the reply says that it is stored */
#define STAY 4        /* a call releases the claim only when the store has a reply */
#ifndef DROP
#define DROP 0
#endif
#define kept(rule) (DROP != rule)

#include "common.pml"

/* The states of a call. */
#define CLAIMED 1     /* it got the claim */
#define RUNS 2        /* its function runs */
#define STORES 3      /* its function has returned a value */
#define OVER 4

byte state[C+1];
bool ran[C+1];        /* its function has begun */
bool may_run_again[C+1];  /* its hold was lost, or it failed: another call may run the function */

byte whose[M];        /* the store messages in flight, by call, or 0 */
byte holds;           /* the call whose hold has the claim, or 0 */
byte begun;           /* calls so far */
byte stored;          /* whose outcome is stored, or 0 */
byte losses;

hidden byte i;

/* A call ends, and releases the claim if it has it. */
inline ends(p) {
  state[p] = OVER;
  if :: holds == p -> holds = 0 :: else fi
}

/* A call returns the outcome of call q: of another one, or its own. */
inline returns(p, q) {
  trace("  call %d returns the outcome of %d\n", p, q, 0);
  promise("broken: every call returns the outcome that is stored\n", q == stored || losses > 0);
  ends(p)
}

inline begins_to_run(p) {
  promise("broken: the function runs only if no outcome is stored\n", stored == 0);
  i = 1;
  do
  :: i < p ->
     promise("broken: it runs again only after a loss or an error\n", !ran[i] || may_run_again[i] || losses > 0);
     i++
  :: else -> break
  od;
  ran[p] = true; state[p] = RUNS
}

inline reads_outcome(p) {
  if
  :: kept(READ_FIRST) && stored != 0 -> reached(1); returns(p, stored)  /* it finds the outcome of a run before it */
  :: else -> begins_to_run(p)
  fi
}

inline send(p) {
  i = 0;
  do :: i < M && whose[i] != 0 -> i++ :: else -> break od;
  if :: i < M -> whose[i] = p; trace("  the outcome of call %d is sent\n", p, 0, 0) :: else fi
}

/* The script once/store, at the server, and its reply. */
inline executes(p) {
  if
  :: stored != 0 || kept(COMPARE) && holds != p -> skip
  :: else ->
     promise("broken: a call whose hold is over stores nothing\n", holds == p);
     stored = p
  fi;
  if
  :: state[p] == STORES && stored != 0 ->
     if :: stored != p -> reached(2) :: else fi;                       /* another call was quicker */
     returns(p, stored)
  :: state[p] == STORES && stored == 0 -> reached(3); ends(p)          /* the call returns ErrLost */
  :: reached(4)                                                        /* the reply is lost, or no call waits for it */
  fi
}

inline arrives(k) {
  trace("  the store of call %d arrives\n", whose[k], 0, 0);
  executes(whose[k]);
  if
  :: whose[k] = 0
  :: reached(5)                                                        /* and will arrive again */
  fi
}

inline some_call() { c = 1; do :: c < begun -> c++ :: break od }
inline some_message() { k = 0; do :: k < M-1 -> k++ :: break od }

init {
  byte k; byte c;
  do
  :: atomic { holds == 0 && begun < C -> begun++; holds = begun; state[begun] = CLAIMED; trace("call %d gets the claim\n", begun, 0, 0) }
  :: atomic { holds != 0 -> trace("call %d loses the claim\n", holds, 0, 0); may_run_again[holds] = true; holds = 0; reached(6) }
  :: atomic { begun > 0 -> some_call();
       if
       :: state[c] == CLAIMED -> reads_outcome(c)
       :: state[c] == RUNS -> state[c] = STORES; send(c)
       :: state[c] == RUNS -> reached(7); may_run_again[c] = true; ends(c)  /* the function fails */
       :: state[c] == STORES -> send(c)                                /* again: the reply did not come */
       :: state[c] == STORES -> reached(10); may_run_again[c] = true; ends(c) /* its context ends: ErrUnconfirmed */
       :: state[c] == STORES && !kept(CONFIRM) -> returns(c, c)
       :: state[c] == STORES && !kept(STAY) && holds == c -> holds = 0
       :: else
       fi; c = 0 }
  :: atomic { some_message(); if :: whose[k] != 0 -> arrives(k) :: else fi; k = 0 }
  :: atomic { some_message(); if :: whose[k] != 0 -> whose[k] = 0; reached(8) :: else fi; k = 0 }  /* lost */
  :: atomic { losses < LOSE && stored != 0 -> losses++; stored = 0; reached(9) }
  od
}
