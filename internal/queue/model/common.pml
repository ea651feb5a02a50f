// SPDX-License-Identifier: Apache-2.0

/* What all models of the queue share: countdowns, marks of what a run has reached, promises. */

#define BIT(i) (1 << (i))
#define MAX(p, q) ((p) > (q) -> (p) : (q))
#define lower(countdown) countdown = (countdown > 0 -> countdown - 1 : 0)

/* A run reports each mark that it reaches once, and .ci/model requires all marks of the sound runs. */
hidden int seen;
#define reached(k) if :: !(seen & BIT(k)) -> seen = seen | BIT(k); printf("reached %d\n", k) :: else fi

/* What the queue promises. A run that breaks a promise ends there, and reports which. */
#define promise(words, p) if :: p :: else -> printf(words); assert(false) fi

#ifdef TRACE                /* to read a counterexample */
#define trace(text, p, q, r) printf(text, p, q, r)
#else
#define trace(text, p, q, r) skip
#endif
