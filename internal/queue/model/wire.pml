// SPDX-License-Identifier: Apache-2.0

/* The wire between waiters and server, and what the models need to use it: part of queue.pml and of several.pml. The including file
 * defines the mtype, M, PROMPT and SPARE before, and of_use: which messages matter to their readers.
 */

/* The wire: kind, waiter and countdown of each message in flight; kind 0: no message. */
mtype kind[M];
byte whose[M];
byte left[M];

/* Scratch variables, without meaning between two steps and not part of a state. */
hidden byte a; hidden byte x;
hidden mtype got; hidden byte me; hidden byte t;

#include "common.pml"
#define arrives trace("  %e of waiter %d arrives with %d left\n", got, me, t)

/* Messages have no order among themselves. They are sorted, so that states that differ only in their order are one. */
#define weight(i) (kind[i] * 64 + whose[i] * 8 + left[i])
#define swap(list, i) x = list[i]; list[i] = list[i-1]; list[i-1] = x
inline tidy() {
  for (a : 0 .. M-1) {
    if :: !of_use(kind[a], whose[a], left[a]) -> kind[a] = 0; whose[a] = 0; left[a] = 0 :: else fi
  }
  a = 1;
  do
  :: a < M && weight(a) > weight(a-1) -> swap(kind, a); swap(whose, a); swap(left, a); a = 1
  :: a < M && weight(a) <= weight(a-1) -> a++
  :: a >= M -> break
  od;
  a = 0
}

/* Waiters send while there is room. A grant without room is lost; a prompt run reserves room for grants. */
#define room (kind[M-1-PROMPT*SPARE] == 0)
inline put(w, what, countdown) {
  if
  :: kind[M-1] == 0 -> kind[M-1] = what; whose[M-1] = w; left[M-1] = countdown; tidy()
  :: else -> assert(!PROMPT || !of_use(what, w, countdown))
  fi
}

inline peek(k) { got = kind[k]; me = whose[k]; t = left[k] }
inline take(k) { peek(k); kind[k] = 0; whose[k] = 0; left[k] = 0; tidy() }
