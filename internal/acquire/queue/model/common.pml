// SPDX-License-Identifier: Apache-2.0

/* What every model of the queue is written with: countdowns, marks of what a run has reached, promises. */

#define BIT(i) (1 << (i))
#define MAX(p, q) ((p) > (q) -> (p) : (q))
#define lower(countdown) countdown = (countdown > 0 -> countdown - 1 : 0)

/* What a run comes across it says once, and .ci/model wants all of it from the sound runs. */
hidden int seen;
#define reached(k) if :: !(seen & BIT(k)) -> seen = seen | BIT(k); printf("reached %d\n", k) :: else fi

/* What the line promises. A run that breaks a promise ends there, and says which. */
#define promise(words, p) if :: p :: else -> printf(words); assert(false) fi

#ifdef TELL                 /* to read a counterexample */
#define tell(text, p, q, r) printf(text, p, q, r)
#else
#define tell(text, p, q, r) skip
#endif
