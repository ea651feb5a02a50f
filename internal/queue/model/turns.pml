// SPDX-License-Identifier: Apache-2.0

/* The queue of exclusive locks with turns, as docs/engine.md describes it: a session waits with one ticket for all its goroutines,
 * and hands the lock from goroutine to goroutine for one turn. Beside it, in the same queue and by the same scripts, fair requests:
 * each has a ticket of its own, and its hold is handed to no other goroutine. Read queue.pml first: time, countdowns, messages and
 * prompt runs are the same here. The file runs beside this one lists what is checked; `make model` checks it.
 *
 * Modelled: two sessions, each with goroutines of both kinds. The holder key, its mark "a queue may exist", and the shortcut past an
 * empty queue. Release and queue again in one request (REQUEUE). A key that is lost, a hold that is ended by force, a slot that moves,
 * a write that is refused, and a ticket that another kind of lock left in the queue. A session that keeps its hold while no goroutine
 * uses it (WARM), and one that wants to learn of waiters of others (WANTED). Any message is late, lost, overtaken or doubled.
 *
 * A session knows its attempts by id. For a turn, one attempt stands for all goroutines of the session that wait (want counts them);
 * for a fair request, an attempt is one goroutine. An id is used again when no message, ticket or key has it any more. The server
 * does not know which kind an attempt is of: the model is to show that both can share one kind at the server.
 *
 * Left out: measured time (a turn is counted in hand-overs), values of tokens (only their order), listeners, reentry, heartbeats
 * apart from polls (a poll pays here), sessions that close, more than one server, clocks of different rates.
 * Of KeepWarm it has the holds, not the times for which they are kept: a session may leave an idle hold at any time.
 *
 * Each rule can be dropped, -DDROP=<rule>, and then a run has to find what goes wrong without it.
 */

#ifndef K0
#define K0 2          /* ids of session 0 */
#endif
#ifndef K1
#define K1 2          /* ids of session 1; together 3 to 6 */
#endif
#define N (K0+K1)
#ifndef M
#define M 2           /* messages in flight at a time */
#endif
#ifndef TURNS
#define TURNS 3       /* the sessions that take turns, a bit each */
#endif
#ifndef FAIR
#define FAIR 0        /* the sessions that make fair requests, a bit each */
#endif
#ifndef GOROUTINES
#define GOROUTINES 2  /* goroutines of a session that wait for or use a turn; and as many that make fair requests */
#endif
#ifndef HANDOVERS
#define HANDOVERS 2   /* hand-overs inside the session for each grant */
#endif
#ifndef USES
#define USES (HANDOVERS + 1) /* what a ticket that is ahead may cost */
#endif
#ifndef LW
#define LW 2          /* waiter's life: what a heartbeat adds, in ticks */
#endif
#ifndef LH
#define LH 3          /* holder's lease: what a renewal adds */
#endif
#define NOT_AFTER 1   /* an enter or requeue is executed no later than this after it was sent */
#ifndef LOSE
#define LOSE 0        /* how often the holder key is lost */
#endif
#ifndef ONCE
#define ONCE 0        /* 1: each loss may cost the waiters one hold at most; that is too few */
#endif
#ifndef FORCE
#define FORCE 0       /* how often a hold is ended by force */
#endif
#ifndef FOREIGN
#define FOREIGN 0     /* 1: after a loss another kind of lock may have used the name, and left a ticket at the head of the queue */
#endif
#ifndef MOVE
#define MOVE 0        /* 1: the slot may move: TRYAGAIN, and the same request with the holder key alone */
#endif
#ifndef SHORT
#define SHORT 0       /* 1: a holder that is certain to have no ticket may release by the short release, which sees the holder key alone */
#endif
#ifndef WARM
#define WARM 0        /* 1: a session may keep the hold of a turn when no goroutine uses it, and use it again */
#endif
#ifndef BLOCK
#define BLOCK 2       /* WARM: how often a hold is used again; its tokens last for no more */
#endif
#ifndef UNAWARE
#define UNAWARE 1     /* WARM and WANTED, PROMPT: after the last fault, ticks in which a holder may not know of a waiter */
#endif
#ifndef WANTED
#define WANTED 0      /* 1: the holder learns that a ticket of another session waits whose session is alive */
#endif
#ifndef FORGE
#define FORGE 0       /* WANTED: 1: anyone may send such a message */
#endif
#ifndef REFUSE
#define REFUSE 0      /* 1: the server may refuse to write the mark or the ticket */
#endif
#ifndef CHURN
#define CHURN 1       /* 0: a waiter waits until it is granted the lock, and only faults lose or double messages */
#endif
#ifndef CHOOSE
#define CHOOSE 0      /* 1: a hand-off skips sessions without a listener, and turns of sessions without a recent heartbeat */
#endif
#ifndef DOUBLE
#define DOUBLE CHURN  /* 0: no request is doubled by the network; sessions still repeat theirs */
#endif
#ifndef PROMPT
#define PROMPT 0      /* 1: a message takes less than a tick, sessions do their duty in each tick, and faults are counted */
#endif
#ifndef FAULTS
#define FAULTS 0      /* PROMPT: how many messages are lost, doubled or late, sessions die, keys are lost, and so on */
#endif
#ifndef STALL
#define STALL LH      /* PROMPT: after the last fault, ticks in which there may be waiters and no holder */
#endif
#define SPARE (M > 6 -> 4 : 3) /* PROMPT: room on the wire that sessions leave to the server */

/* The rules that can be dropped. Turns inside a session: */
#define ONE_TICKET 1           /* no request is sent for a turn while the session waits for one or holds one */
#define TURN_COUNTS_HANDOVERS 2 /* a hand-over inside the session does not start the turn again */
#define TURN_FROM_GRANT 3      /* nor does a renewal: only what grants the lock does */
#define LEFT_IS_LEFT 4         /* no goroutine takes over an attempt whose leave was sent */
#define NEWEST_WINS 5          /* before a grant is delivered, the session ends its older hold of the name */
#define NEWEST_BY_TOKEN 6      /* ... and the older one is the one with the smaller token, not the one that arrived first */
#define LEAVE_AGAIN 7          /* a session that reads something for an attempt that is over leaves once more */
#define LEAVE_TO_THE_END 8     /* an attempt is over when a leave that was sent after the not-after of its requests has a reply */
/* Release and queue again in one request: */
#define FRESH_TICKET 10        /* the new ticket has a fresh id */
#define RELEASE_ALWAYS 11      /* the release half is done however late the request is */
#define QUEUE_IN_TIME 12       /* the queue half is done only before the not-after */
#define CARRY_HEARTBEAT 13     /* the request is a heartbeat too */
#define POLL_AT_ONCE 14        /* if it has no reply, the new id polls */
#define REPEAT_RELEASE 15      /* if it has no reply, the old id leaves, until that has a reply */
#define OLD_TO_THE_END 16      /* its reply ends the old id only if no enter of that can still arrive */
/* The holder key and the queue: */
#define LEAVE_CHECKS 20        /* a leave checks the queue even if the key has no mark, and is not over before it did */
#define REQUEUE_CHECKS 21      /* nor does the reply to a requeue that did not check it end an old id that may have a ticket */
#define POLL_TAKES_NOTHING 22  /* a poll that sees only the holder key does not acquire a free lock */
#define MARK_FIRST 23          /* no ticket is written if the mark is refused */
#define ENTER_MARKS 24         /* an enter that queues marks the holder key */
#define POLL_MARKS 25          /* a poll with a ticket marks it again */
#define MARK_STAYS 26          /* a release that sees only the holder key leaves the mark */
#define MARK_OUTLIVES 27       /* a hold that ends by itself leaves the mark */
#define FOREIGN_IS_DROPPED 28  /* a hand-off drops the tickets of another kind of lock */
#define FOREIGN_GETS_NOTHING 29 /* ... and grants them nothing */
#define CERTAIN_SENT_ONCE 40   /* a holder is certain that it has no ticket only if it sent one enter or requeue, and once */
#define FREE_COMPARES 43       /* SHORT: the short release does nothing to a key that was marked since the grant */
#define FREE_IF_CERTAIN 44     /* ... and only a holder that is certain to have no ticket sends it */
#define FAIR_IN_ORDER 42       /* CHOOSE: a fair request is not skipped because its session sent no heartbeat lately */
/* A hold that no goroutine uses, and that is kept: */
#define RECALL_ENDS 50         /* no use begins after a recall was read */
#define REUSE_IN_TIME 51       /* nor after the deadline */
#define NEXT_TOKEN 52          /* each use has a token of its own */
#define RECALL_BY_MESSAGE 53   /* what marks the holder key sends the holder a recall */
#define RECALL_BY_RENEWAL 54   /* the reply to a renewal says whether the key has a mark, which is a recall */
#define RECALL_IS_KEPT 55      /* a recall that overtakes the grant is remembered */
#define UNMARKED_IS_KEPT 56    /* a hold that was granted from the queue is not kept */
#define FIRST_LEASE 57         /* a hold that had more than the first lease is not kept, and what is kept gets no more */
#define IDLE_IS_LEFT 58        /* a kept hold is ended by a leave, never by a requeue */
/* A holder that wants to learn of waiters: */
#define WANTED_ASKS 60         /* neither a message nor a mark says that one waits: the holder asks */
#define WANTED_OF_OTHERS 61    /* a ticket of the holder's own session is no waiter */
#define WANTED_ALIVE 62        /* nor is one whose session is dead */
#define WANTED_BY_MESSAGE 63   /* a ticket of another session that marks the key sends a message */
#define WANTED_IF_FIRST 64     /* ... and so does one that is the first in the queue of a marked key */
#define WANTED_BEHIND_OWN 65   /* ... or the first behind those of the holder's session */
#define WANTED_BEHIND_DEAD 66  /* ... or the first behind a dead one */
#define WANTED_BY_RENEWAL 67   /* the reply to a renewal says whether the key has a mark: then the holder asks */
#define WANTED_IS_KEPT 68      /* a message that overtakes the grant is remembered */
/* Fair requests: */
#define FAIR_OWN_TICKET 30     /* a fair request does not join the ticket of its session's turns */
#define FAIR_BY_TICKET 31      /* a hand-over inside the session goes to no fair waiter */
#define FAIR_NO_TURN 32        /* a fair holder hands over to no goroutine of its session */
#define FAIR_SAME_LOCK 33      /* NEWEST_WINS between fair requests and turns: they are one lock */
#ifndef DROP
#define DROP 0
#endif
#define kept(rule) (DROP != rule)

mtype = { ENTER, POLL, RENEW, LEAVE, REQUEUE, RELEASE,                       /* requests */
          ASK, GRANT, RECALL, NOTICE, HOLD, HAS_TICKET, GONE, DONE, WAITED_FOR, /* one more; messages; replies */
          FREE, ENTERING, REQUEUEING, QUEUED, BEGUN, LEAVING };       /* states of an attempt, as attemptState has them */

/* The server: the holder key, the queue, and for each session its life and the latest heartbeat that pays for it. */
#define NONE N
#define OTHER_KIND (N+1)
byte owner = NONE; byte expiry; bit mark;
byte ticket[N];             /* position in the queue, 1 is the head; 0: no ticket */
bit foreign;                /* there is a ticket of another kind at the head */
byte life[2]; byte paid[2];
bit unsubscribed[2];        /* it listened at the last heartbeat, and no longer does */

/* The sessions and their attempts. */
byte want[2];               /* goroutines that wait for a turn */
byte handovers[2];          /* hand-overs since the last grant */
bit dead[2];
mtype state[N] = FREE;
bit fair[N];                /* the attempt is a fair request */
bit joined[N];              /* FAIR_OWN_TICKET dropped: it has no ticket, but waits for its session's turn */
byte until[N];              /* BEGUN: what is left of the lease, as the session knows */
byte not_after[N];          /* what is left of the not-after of its latest enter or requeue, if that has no reply */
bit copies[N];              /* more than one enter or requeue of it may be on its way */
bit early[N];               /* LEAVING by a requeue that was sent before the not-after of its enter */
bit certain[N];             /* MOVE, SHORT: it holds, and what it has sent could make only one hold or ticket: it has no ticket */
bit did[N];                 /* PROMPT: it has done its duty in this tick */
bit idle[N];                /* WARM: it holds, and no goroutine uses it */
bit recalled[N];            /* WARM: its session knows that another one waits, or does not know that none does */
bit longer[N];              /* WARM: it may have more than the first lease */
byte reuses[N];             /* WARM: how often it was used again */
bit told[N];                /* WANTED: its session knows that one of another waits */
bit noticed[N];             /* WANTED: a message came before the grant */
byte age[N];                /* the order of its token among its session's; 0 is the greatest */
bit moving;                 /* the slot moves */

/* Only the checks know these. */
bit hold_lost[N];           /* its hold was lost or ended by force: others may hold */
byte allowed[N];            /* uses by others that may come before it */
byte earlier[N];            /* fair requests that were in the queue before this one, a bit each */
bit open;                   /* the key was lost, and no poll of a waiter alive has arrived since */
byte losses; byte forced; byte overtakes; bit was_foreign;
bit unasked[N];             /* WANTED: it was granted in the queue, and was not renewed since */
bit was_wanted[N];          /* WANTED: while it held, a living session of others had a ticket */
bit idle_died[2];           /* the session died with a hold that no goroutine used */
byte faults;
#define LONG 15
byte calm = LONG;           /* ticks since the last fault */

/* The wire: kind, attempt, the id that a requeue releases, the countdown of the heartbeat, and a limit. The limit of an enter or
 * requeue is the countdown of its not-after. Of a leave, and of DONE, it says that it is the last (2: and that there is no ticket); of
 * another reply, that an enter or requeue has a reply, and 2 more if the key has a mark; of a renewal,
 * 1 is the first lease. These are more fields than in wire.pml; otherwise it is the same. */
mtype kind[M]; byte whose[M]; byte other[M]; byte left[M]; byte limit[M];
bit late[M];                /* PROMPT: it takes more than a tick; a fault */

hidden byte a; hidden byte b; hidden byte x; hidden byte y; hidden byte z; hidden byte f;
hidden mtype got; hidden byte me; hidden byte old; hidden byte t; hidden byte l; hidden byte w;

#include "common.pml"
#define MIN(p, q) ((p) < (q) -> (p) : (q))

#define session(i) ((i) >= K0)
#define first(s) ((s) * K0)
#define last(s) (K0 - 1 + (s) * K1)
#define takes_turns(s) (TURNS & BIT(s))
#define makes_fair(s) (FAIR & BIT(s))
#define waits(i) (state[i] == ENTERING || state[i] == REQUEUEING || state[i] == QUEUED)
#define tries(i) (waits(i) || state[i] == BEGUN)
#define believes(i) (state[i] == BEGUN && until[i] > 0)
#define counted(i) (believes(i) && !hold_lost[i])
#define is_alive(i) (ticket[i] > 0 && life[session(i)] > 0 && tries(i))
#define turn_tries(i) (!fair[i] && tries(i))
#define turn_holds(i) (!fair[i] && state[i] == BEGUN)
#define turn_requests(i) (!fair[i] && tries(i) && (ticket[i] > 0 || owner == i))
#define fair_tries(i) (fair[i] && tries(i))
#define fair_waits(i) (fair[i] && waits(i))
#define queued(i) (ticket[i] > 0)
#define had_reply(lim) ((lim) & 1)
#define is_marked(lim) ((WARM || WANTED) && ((lim) & 2))
/* A recall makes a difference to it. */
#define heeds(i) (WARM && !fair[i] && !recalled[i] && (state[i] == BEGUN || waits(i)))
/* So does a word about waiters. */
#define listens(i) (WANTED && !told[i] && (state[i] == BEGUN || waits(i)))
#define uses(i) (fair[i] -> 1 : USES)

/* How many attempts of session s satisfy that. */
#define is(s, p, i) (session(i) == (s) && p(i))
#if K0 + K1 == 3
#define count(s, p) (is(s, p, 0) + is(s, p, 1) + is(s, p, 2))
#elif K0 + K1 == 4
#define count(s, p) (is(s, p, 0) + is(s, p, 1) + is(s, p, 2) + is(s, p, 3))
#elif K0 + K1 == 5
#define count(s, p) (is(s, p, 0) + is(s, p, 1) + is(s, p, 2) + is(s, p, 3) + is(s, p, 4))
#else
#define count(s, p) (is(s, p, 0) + is(s, p, 1) + is(s, p, 2) + is(s, p, 3) + is(s, p, 4) + is(s, p, 5))
#endif
#define any(p) (count(0, p) + count(1, p) > 0)

/* ---- The wire ---- */

/* Messages that their reader would ignore are not kept. */
#define request(what) (what == ENTER || what == POLL || what == RENEW || what == LEAVE || what == REQUEUE || what == RELEASE || what == ASK)
#define ends_old(i, o) (o != NONE && o != i && state[o] == LEAVING && !early[o])
#define of_use(what, i, o, countdown, lim) (request(what) || (!dead[session(i)] && state[i] != FREE && what != 0 && ( \
  (what != DONE && (ends_old(i, o) || (had_reply(lim) && !copies[i] && not_after[i] > 0))) || \
  ((what == RECALL || (what == HOLD && is_marked(lim))) && heeds(i)) || \
  ((what == NOTICE || what == WAITED_FOR || (what == HOLD && is_marked(lim))) && listens(i)) || \
  ((what == HOLD || what == GRANT) && waits(i) && (countdown > 0 || state[i] != QUEUED)) || \
  (what == HOLD && believes(i) && (countdown > until[i] || !kept(TURN_FROM_GRANT))) || \
  (what == HAS_TICKET && waits(i) && state[i] != QUEUED) || \
  (what != GONE && what != DONE && what != RECALL && what != NOTICE && what != WAITED_FOR && state[i] == LEAVING && PROMPT) || \
  (what == GONE && tries(i)) || \
  (what == DONE && state[i] == LEAVING && lim))))
#define of_use_at(k) of_use(kind[k], whose[k], other[k], left[k], limit[k])

/* Messages have no order among themselves. They are sorted, so that states that differ only in their order are one. */
#define weight(k) (kind[k] * 4096 + whose[k] * 512 + other[k] * 64 + left[k] * 16 + limit[k] * 4 + late[k])
#define swap(list, k) x = list[k]; list[k] = list[k-1]; list[k-1] = x
#define remove(k) kind[k] = 0; whose[k] = 0; other[k] = 0; left[k] = 0; limit[k] = 0; late[k] = 0
inline tidy() {
  for (a : 0 .. M-1) { if :: kind[a] != 0 && !of_use_at(a) -> remove(a) :: else fi }
  a = 1;
  do
  :: a < M && weight(a) > weight(a-1) ->
     swap(kind, a); swap(whose, a); swap(other, a); swap(left, a); swap(limit, a); swap(late, a); a = 1
  :: a < M && weight(a) <= weight(a-1) -> a++
  :: a >= M -> break
  od;
  a = 0
}

/* Sessions send while there is room. A reply without room is lost; a prompt run reserves room for replies. */
#define room (kind[M-1-PROMPT*SPARE] == 0)
inline put(word, id, releases, gives, bound) {
  if
  :: kind[M-1] == 0 -> kind[M-1] = word; whose[M-1] = id; other[M-1] = releases; left[M-1] = gives; limit[M-1] = bound; tidy()
  :: else -> assert(!PROMPT || !of_use(word, id, releases, gives, bound))
  fi
}
inline peek(k) { got = kind[k]; me = whose[k]; old = other[k]; t = left[k]; l = limit[k] }
inline take(k) { peek(k); if :: late[k] -> calm = 0 :: else fi; remove(k); tidy() }
#define fault if :: PROMPT -> faults++; calm = 0 :: else fi
#define may_fail (!PROMPT || faults < FAULTS)

/* ---- The promises ---- */

/* A ticket of another session than that of i, whose session is alive. */
#define is_wanting(a, i) (ticket[a] > 0 && life[session(a)] > 0 && session(a) != session(i))

inline check() {
  for (a : 0 .. N-1) {
    promise("broken: no ticket without a waiter\n", ticket[a] == 0 || state[a] != FREE || dead[session(a)]);
    promise("broken: no hold without a waiter\n", owner != a || state[a] != FREE || dead[session(a)]);
    promise("broken: an attempt that is certain to have no ticket has none\n", !certain[a] || ticket[a] == 0)
  }
  if
  :: WANTED && owner < N ->
     for (a : 0 .. N-1) { if :: is_wanting(a, owner) -> was_wanted[owner] = 1 :: else fi }
  :: else
  fi;
  promise("broken: no hold of another kind\n", owner != OTHER_KIND);
  promise("broken: one holder\n", count(0, counted) + count(1, counted) <= 1);
  promise("broken: one holder in a session\n", count(0, believes) <= 1 && count(1, believes) <= 1);
  promise("broken: one ticket for the turns of a session\n", count(0, turn_requests) <= 1 && count(1, turn_requests) <= 1)
}

/* Goroutine by goroutine: attempt i, or one that it stands for, begins to use the lock. */
inline begin(i) {
  for (a : 0 .. N-1) {
    if
    :: a != i && is_alive(a) ->
       promise("broken: a waiter is delayed by a turn for each ticket ahead of it\n", allowed[a] > 0);
       if :: allowed[a] > 0 -> allowed[a]-- :: else fi;
       promise("broken: fair requests are served in their order\n", !fair[i] || !fair[a] || !(earlier[i] & BIT(a)))
    :: else
    fi;
    if
    :: a != i && session(a) == session(i) && believes(a) && kept(NEWEST_WINS) && (kept(FAIR_SAME_LOCK) || fair[a] == fair[i]) ->
       reached(0);                                                      /* a newer grant ends an older hold */
       promise("broken: a hold ends while it is its session's\n", hold_lost[a]);
       until[a] = 0
    :: else
    fi
  }
  a = 0
}

/* What may come before i, from now on: a turn or a use for each ticket that is ahead of it, for the holder, and for each attempt whose
 * hold the server no longer knows. */
inline count_ahead(i) {
  allowed[i] = 0;
  for (a : 0 .. N-1) {
    if :: a != i && ticket[a] > 0 && ticket[a] < ticket[i] -> allowed[i] = allowed[i] + uses(a) :: else fi;
    if :: a != i && (owner == a || (hold_lost[a] && tries(a))) -> allowed[i] = allowed[i] + uses(a) :: else fi
  }
}

/* A lock is acquired without a check of the queue: past a waiter that is alive only between a loss of the key and the next poll of a waiter. */
inline take_free(i, e) {
  x = 0; earlier[i] = 0;
  hold(i, e);
  for (b : 0 .. N-1) {
    if
    :: b != i && ticket[b] > 0 ->
       if
       :: is_alive(b) -> reached(1); x = 1;                             /* a waiter that is alive is overtaken */
          promise("broken: a living waiter is overtaken\n", open)
       :: else
       fi;
       count_ahead(b)
    :: else
    fi
  }
  if :: ONCE && x == 1 -> overtakes++; promise("broken: a loss costs one hold\n", overtakes <= losses) :: else fi
}

/* ---- The server ---- */

/* The session of i was dead, and is alive again without a new ticket: the holder learns of it by its next renewal. */
inline come_back(i) {
  if :: WANTED && owner < N && session(owner) != session(i) -> unasked[owner] = 1 :: else fi
}

inline lengthen_life(i, countdown) {
  unsubscribed[session(i)] = 0;
  life[session(i)] = MAX(life[session(i)], LW); paid[session(i)] = MAX(paid[session(i)], countdown)
}

inline queue(i) {
  ticket[i] = 1; earlier[i] = 0;
  for (a : 0 .. N-1) {
    if :: a != i && ticket[a] > 0 -> ticket[i]++; earlier[i] = earlier[i] | (fair[a] && fair[i] -> BIT(a) : 0) :: else fi
  }
  count_ahead(i)
}

inline remove_ticket(i) {
  if
  :: ticket[i] > 0 ->
     for (a : 0 .. N-1) { if :: ticket[a] > ticket[i] -> ticket[a]-- :: else fi; earlier[a] = earlier[a] & ~BIT(i) }
     ticket[i] = 0; allowed[i] = 0; earlier[i] = 0
  :: else
  fi
}

inline hold(i, e) {
  was_wanted[i] = was_wanted[i] && owner == i; unasked[i] = 0;
  owner = i; expiry = e; hold_lost[i] = hold_lost[i] && state[i] == BEGUN;
  if
  :: LOSE + FORCE > 0 && FAIR ->                                        /* its token is the greatest */
     for (a : first(session(i)) .. last(session(i))) { if :: age[a] < age[i] -> age[a]++ :: else fi }
     age[i] = 0
  :: else
  fi;
  trace("    %d holds at the server for %d, mark %d\n", i, e, mark)
}

/* A ticket that is not skipped. For a turn, the session sent a heartbeat within this tick. */
#define is_recent(i) (life[session(i)] == LW || (fair[i] && kept(FAIR_IN_ORDER)))
#define is_ready(i, caller) (!CHOOSE || ((caller) < N && session(i) == session(caller)) || (!unsubscribed[session(i)] && is_recent(i)))

/* The lock goes to the first ticket that is ready, or else to the first that is alive and listens. The caller reads its grant in its
 * reply, any other waiter in a message. */
inline hand_off(caller) {
  owner = NONE; expiry = 0; f = NONE;
  if :: foreign && kept(FOREIGN_GETS_NOTHING) && kept(FOREIGN_IS_DROPPED) -> reached(2); foreign = 0 :: else fi;
  for (b : 1 .. N) {
    for (y : 0 .. N-1) { if :: f == NONE && ticket[y] == b && life[session(y)] > 0 && is_ready(y, caller) -> f = y :: else fi }
  }
  if
  :: CHOOSE && f == NONE ->
     for (b : 1 .. N) {
       for (y : 0 .. N-1) { if :: f == NONE && ticket[y] == b && life[session(y)] > 0 && !unsubscribed[session(y)] -> f = y :: else fi }
     }
  :: else
  fi;
  if
  :: foreign -> if :: !kept(FOREIGN_GETS_NOTHING) -> foreign = 0; owner = OTHER_KIND; expiry = LW :: else fi
  :: !foreign && f != NONE ->
     y = ticket[f]; remove_ticket(f); hold(f, life[session(f)]); unasked[f] = WANTED;
     for (b : 0 .. N-1) {
       if
       :: ticket[b] > 0 && ticket[b] < y -> reached(21);                /* the dead are skipped, and those that are not ready */
          if :: CHOOSE && is_alive(b) -> reached(25) :: else fi;        /* a ticket is skipped whose session is alive */
          promise("broken: fair requests are served in their order\n", !fair[f] || !fair[b] || !is_alive(b) || unsubscribed[session(b)]);
          count_ahead(b);
          if :: unsubscribed[session(b)] -> for (x : 0 .. N-1) { earlier[x] = earlier[x] & ~BIT(b) } :: else fi
       :: else
       fi
     };
     if :: f != caller -> put(GRANT, f, NONE, paid[session(f)], 0) :: else fi
  :: else -> if :: any(queued) -> reached(3) :: else -> mark = 0 fi     /* only the dead wait: the mark stays */
  fi
}

inline reply(i, o, countdown, lim) {
  got = (owner == i -> HOLD : (ticket[i] > 0 -> HAS_TICKET : GONE));
  t = (got == HOLD -> countdown : 0); w = lim + ((WARM || WANTED) && mark && got == HOLD -> 2 : 0);
  put(got, i, o, t, w)
}

/* What marks a key recalls its holder. The server knows which holders may keep a hold. */
#define may_recall(i) (WARM && owner < N && owner != i && !fair[owner] && kept(RECALL_BY_MESSAGE))
#define may_notify(i) (WANTED && owner < N && session(owner) != session(i))
inline set_mark(i) {
  if :: !mark && may_recall(i) -> put(RECALL, owner, NONE, 0, 0) :: else fi;
  if :: !mark && may_notify(i) && kept(WANTED_BY_MESSAGE) -> put(NOTICE, owner, NONE, 0, 0) :: else fi;
  if :: WANTED && !mark && losses > 0 && owner < N && session(owner) == session(i) -> unasked[owner] = 1 :: else fi; /* the key was lost */
  mark = 1
}

/* A ticket that joins the queue of a marked key sends a message if it is the first of another session that is alive, as far as the last
 * ticket shows: there is none, or it is that of the holder's session, or of a dead one. */
inline notify(i) {
  x = 0; y = NONE;
  for (a : 0 .. N-1) { if :: ticket[a] > x -> x = ticket[a]; y = a :: else fi };
  if
  :: y == NONE && kept(WANTED_IF_FIRST) -> put(NOTICE, owner, NONE, 0, 0)
  :: y != NONE && session(y) == session(owner) && kept(WANTED_BEHIND_OWN) -> put(NOTICE, owner, NONE, 0, 0)
  :: y != NONE && session(y) != session(owner) && life[session(y)] == 0 && kept(WANTED_BEHIND_DEAD) -> put(NOTICE, owner, NONE, 0, 0)
  :: else
  fi
}

/* The question of holder i. */
inline ask(i) {
  x = 0;
  for (a : 0 .. N-1) {
    if
    :: ticket[a] > 0 && (session(a) != session(i) || !kept(WANTED_OF_OTHERS)) && (life[session(a)] > 0 || !kept(WANTED_ALIVE)) -> x = 1
    :: else
    fi
  };
  if :: x -> put(WAITED_FOR, i, NONE, 0, 0) :: else fi
}

inline enter(i, countdown, in_time) {
  if
  :: in_time ->
     if
     :: owner == i -> expiry = MAX(expiry, LW)
     :: owner == NONE && !mark -> take_free(i, LW)                      /* the shortcut: the queue is not checked */
     :: else ->
        if :: mark && ticket[i] == 0 && may_notify(i) -> notify(i) :: else fi;
        if :: kept(ENTER_MARKS) -> set_mark(i) :: else fi;
        if
        :: ticket[i] == 0 -> queue(i)
        :: else -> if :: life[session(i)] == 0 -> come_back(i) :: else fi
        fi;
        lengthen_life(i, countdown);
        if :: owner == NONE -> hand_off(i) :: else fi
     fi;
     reply(i, NONE, countdown, 1)
  :: else -> put(GONE, i, NONE, 0, 1)
  fi
}

/* The write of the mark is refused, for want of memory say. */
inline enter_refused(i, countdown, in_time) {
  if
  :: in_time && ticket[i] == 0 && owner != i && !kept(MARK_FIRST) -> queue(i); lengthen_life(i, countdown)
  :: else -> reached(4)
  fi
}

inline poll(i, countdown) {
  if
  :: owner == i -> expiry = MAX(expiry, LW)
  :: owner != i && ticket[i] > 0 ->
     open = 0; if :: life[session(i)] == 0 -> come_back(i) :: else fi; lengthen_life(i, countdown);
     if :: kept(POLL_MARKS) -> if :: !mark -> reached(5) :: else fi; set_mark(i) :: else fi;   /* the mark was lost */
     if :: owner == NONE -> hand_off(i) :: else fi
  :: else
  fi;
  reply(i, NONE, countdown, 0)
}

inline renew(i, countdown, is_first) {
  if
  :: owner == i -> expiry = MAX(expiry, (is_first -> LW : LH)); unasked[i] = 0; got = HOLD; t = countdown
  :: else -> got = GONE; t = 0
  fi;
  w = ((WARM || WANTED) && mark && got == HOLD -> 2 : 0);
  put(got, i, NONE, t, w)
}

/* A leave never ends an attempt that still continues. */
#define ends_own(i) promise("broken: an attempt that still waits or holds is ended\n", !tries(i))
inline leave(i, final) {
  ends_own(i);
  if :: owner == NONE && mark && ticket[i] == 0 -> reached(23) :: else fi;    /* its hold is over: it hands the lock off as well */
  if :: mark || (kept(LEAVE_CHECKS) && final < 2) -> remove_ticket(i) :: else fi;
  if
  :: owner == i && !mark -> owner = NONE; expiry = 0
  :: mark && (owner == i || owner == NONE) -> hand_off(NONE)
  :: else
  fi;
  put(DONE, i, NONE, 0, final)
}

/* The short release. Without a mark it ends the hold, and nothing is left of i. Otherwise it has done nothing, and the leave follows. */
inline short_release(i) {
  if
  :: owner == i && (!mark || !kept(FREE_COMPARES)) ->
     reached(26); ends_own(i); owner = NONE; expiry = 0; mark = 0; put(DONE, i, NONE, 0, 2)
  :: else -> reached(27); put(HAS_TICKET, i, NONE, 0, 0)
  fi
}

/* Releases o and queues i in one step. Without a mark there is no waiter: i holds at once, without a ticket. */
inline requeue(i, o, countdown, in_time) {
  if
  :: !in_time && !kept(RELEASE_ALWAYS) -> put(GONE, i, o, 0, 1)
  :: else ->
     y = owner == o && !mark;                                           /* alone */
     z = y || kept(CARRY_HEARTBEAT);
     if
     :: owner == o -> reached(6);
        promise("broken: an attempt that still waits or holds is ended\n", !tries(o) || (o == i && state[o] != BEGUN))
     :: else -> reached(7)                                              /* the hold has ended already */
     fi;
     if :: o != i -> remove_ticket(o) :: else fi;
     if
     :: owner == i && o != i -> reached(8); expiry = MAX(expiry, LW)    /* it arrives again */
     :: (owner != i || o == i) && y && in_time -> take_free(i, LW)
     :: else ->
        if :: owner == o -> owner = NONE; expiry = 0 :: else fi;
        if
        :: mark && (in_time || !kept(QUEUE_IN_TIME)) && ticket[i] == 0 ->
           queue(i); if :: owner != NONE && owner < N -> unasked[owner] = WANTED :: else fi   /* it sends no message */
        :: else
        fi;
        if :: ticket[i] > 0 && kept(CARRY_HEARTBEAT) -> if :: life[session(i)] == 0 -> come_back(i) :: else fi; lengthen_life(i, countdown) :: else fi;
        if :: owner == NONE && mark -> hand_off(i) :: else fi
     fi;
     z = (z -> countdown : MIN(countdown, paid[session(i)]));
     reply(i, o, z, 1)
  fi
}

/* After TRYAGAIN: the same request with the holder key alone. What it cannot do has no reply (0), and is sent again. The reply to
 * a requeue ends the old id only if that has no ticket: the queue was not checked. */
inline holder_alone(i, o, lim) {
  z = NONE; y = lim;
  if
  :: (got == ENTER || got == POLL) && owner == i -> expiry = MAX(expiry, LW); y = (got == ENTER); got = HOLD
  :: got == ENTER && owner == NONE && !mark && lim > 0 -> reached(9); take_free(i, LW); y = 1; got = HOLD
  :: got == ENTER && lim > 0 && may_recall(i) -> put(RECALL, owner, NONE, 0, 0); got = 0   /* it cannot mark the key */
  :: got == POLL && owner == NONE && !mark && !kept(POLL_TAKES_NOTHING) -> take_free(i, LW); y = 0; got = HOLD
  :: got == RENEW && owner == i -> expiry = MAX(expiry, (lim -> LW : LH)); y = ((WARM || WANTED) && mark -> 2 : 0); got = HOLD
  :: got == RENEW && owner != i -> y = 0; got = GONE
  :: got == LEAVE && owner == i ->
     reached(10); ends_own(i); owner = NONE; expiry = 0; mark = mark && kept(MARK_STAYS);
     got = (kept(LEAVE_CHECKS) && lim < 2 -> 0 : DONE)
  :: got == LEAVE && owner != i && lim == 2 -> reached(22); got = DONE  /* it has no ticket, and no longer a hold */
  :: got == REQUEUE && owner == o && o != i ->
     ends_own(o);
     z = (certain[o] || !kept(REQUEUE_CHECKS) -> o : NONE); y = 1;
     if
     :: !mark && lim > 0 -> reached(11); take_free(i, LW); got = HOLD
     :: else -> reached(12); owner = NONE; expiry = 0; mark = mark && kept(MARK_STAYS); got = GONE
     fi
  :: else -> got = 0
  fi;
  t = (got == HOLD -> t : 0);
  if :: got != 0 -> put(got, i, z, t, y) :: else fi
}

/* ---- The session ---- */

inline not_kept(i) { idle[i] = 0; recalled[i] = 0; longer[i] = 0; reuses[i] = 0; told[i] = 0; noticed[i] = 0 }
inline free(i) {
  if
  :: LOSE + FORCE > 0 && FAIR ->
     for (a : first(session(i)) .. last(session(i))) { if :: age[a] > age[i] -> age[a]-- :: else fi }
     age[i] = last(session(i)) - first(session(i))
  :: else
  fi;
  state[i] = FREE; fair[i] = 0; joined[i] = 0; until[i] = 0; not_after[i] = 0; copies[i] = 0; early[i] = 0; certain[i] = 0; did[i] = 0;
  hold_lost[i] = 0; not_kept(i);
  tidy()
}

#define no_copy_comes(i) (not_after[i] == 0 || !kept(LEAVE_TO_THE_END))
#define final_leave(i) (certain[i] -> 2 : no_copy_comes(i))
inline quit(i) { end(i, LEAVE, final_leave(i)) }
inline end(i, by, final) {
  trace("attempt %d leaves, from %e, want %d\n", i, state[i], want[session(i)]);
  if :: turn_holds(i) -> handovers[session(i)] = 0 :: else fi;
  state[i] = LEAVING; until[i] = 0; did[i] = PROMPT; not_kept(i); put(by, i, NONE, 0, final); tidy()
}

/* A grant with a smaller token than that of the hold that the session has. */
#define newer(i, y) (y != i && believes(y) && age[y] < age[i])
inline is_older(i) {
  x = 0;
  if
  :: LOSE + FORCE > 0 && FAIR && kept(NEWEST_BY_TOKEN) && kept(NEWEST_WINS) && kept(FAIR_SAME_LOCK) ->
     for (a : first(session(i)) .. last(session(i))) { if :: newer(i, a) -> x = 1 :: else fi }
  :: else
  fi
}

/* What says that another session may wait. Without a question it is believed. */
inline learn(i) {
  if :: kept(WANTED_ASKS) -> put(ASK, i, NONE, 0, 0) :: else -> tell(i) fi
}
inline tell(i) {
  told[i] = 1; trace("    attempt %d is told that another session waits\n", i, 0, 0);
  promise("broken: a holder is told of no waiter that was not there\n", was_wanted[i])
}

inline read(i) {
  if
  :: listens(i) && got == NOTICE && state[i] == BEGUN -> learn(i)
  :: listens(i) && got == NOTICE && waits(i) && kept(WANTED_IS_KEPT) -> noticed[i] = 1 /* it overtakes the grant */
  :: listens(i) && got == WAITED_FOR && state[i] == BEGUN -> tell(i)
  :: listens(i) && got == HOLD && is_marked(l) && believes(i) && kept(WANTED_BY_RENEWAL) -> learn(i)
  :: else
  fi;
  if :: got != DONE && ends_old(i, old) && not_after[old] == 0 -> b = old; free(b) :: else fi;
  if
  :: heeds(i) && got == HOLD && is_marked(l) && (state[i] != BEGUN || kept(RECALL_BY_RENEWAL)) -> recalled[i] = 1
  :: heeds(i) && got == GRANT && waits(i) && kept(UNMARKED_IS_KEPT) -> recalled[i] = 1
  :: heeds(i) && got == RECALL && (state[i] == BEGUN || kept(RECALL_IS_KEPT)) ->
     if :: waits(i) -> reached(28) :: else fi; recalled[i] = 1          /* it overtakes the grant */
  :: else
  fi;
  if :: got != DONE -> l = had_reply(l) :: else fi;
  if :: got != DONE && l && !copies[i] -> not_after[i] = 0 :: else fi;  /* the one copy had its reply */
  if
  :: got == GONE && tries(i) && !kept(REPEAT_RELEASE) ->                /* the new id has no ticket, and the old one is forgotten */
     for (b : first(session(i)) .. last(session(i))) { if :: state[b] == LEAVING -> free(b) :: else fi }
  :: else
  fi;
  is_older(i);
  if
  :: (got == HOLD || got == GRANT) && waits(i) && (t == 0 || x == 1) ->
     if :: x == 1 -> reached(13) :: else -> reached(14) fi;             /* an older grant is not delivered; one comes too late */
     state[i] = QUEUED
  :: (got == HOLD || got == GRANT) && waits(i) && t > 0 && x == 0 ->
     if
     :: fair[i] || want[session(i)] > 0 ->
        state[i] = BEGUN; until[i] = t;
        if :: !fair[i] -> want[session(i)]--; handovers[session(i)] = 0 :: else fi;
        if :: MOVE && !copies[i] && (got == GRANT || !l) -> reached(24) :: else fi;   /* it waited, and may be certain nevertheless */
        trace("    attempt %d begins by %e, with %d left\n", i, got, t);
        begin(i);
        if :: noticed[i] -> noticed[i] = 0; learn(i) :: else fi
     :: else -> reached(15); quit(i)                                    /* it is granted when no goroutine waits any more */
     fi
  :: got == HOLD && believes(i) ->
     until[i] = MAX(until[i], t); if :: !kept(TURN_FROM_GRANT) -> handovers[session(i)] = 0 :: else fi
  :: got == HAS_TICKET && waits(i) -> state[i] = QUEUED
  :: (got == HOLD || got == HAS_TICKET || got == GRANT) && state[i] == LEAVING && kept(LEAVE_AGAIN) ->
     x = 1;                                                             /* a leave that is under way does as well */
     for (a : 0 .. M-1) { if :: kind[a] == LEAVE && whose[a] == i -> x = 0 :: else fi };
     if :: x -> put(LEAVE, i, NONE, 0, final_leave(i)) :: else fi
  :: got == GONE && tries(i) ->
     if :: waits(i) && not_after[i] == 0 && l && !copies[i] -> reached(16); free(i) :: else -> quit(i) fi
  :: got == DONE && state[i] == LEAVING && l -> free(i)
  :: else
  fi;
  tidy()
}

/* f is an id that no message, ticket or key has. */
inline fresh(s) {
  f = NONE;
  for (b : first(s) .. last(s)) {
    if
    :: f == NONE && state[b] == FREE && owner != b && ticket[b] == 0 ->
       x = 1; for (a : 0 .. M-1) { if :: kind[a] != 0 && (whose[a] == b || other[a] == b) -> x = 0 :: else fi };
       if :: x -> f = b :: else fi
    :: else
    fi
  }
}

#define may_enter(s) (count(s, turn_tries) == 0 || !kept(ONE_TICKET))
inline start(id, what, releases) {
  not_after[id] = NOT_AFTER; did[id] = PROMPT; state[id] = (what == ENTER -> ENTERING : REQUEUEING);
  put(what, id, releases, LW, NOT_AFTER)
}

proctype Session(byte s) {
  do
  :: d_step { takes_turns(s) && !dead[s] && want[s] + count(s, turn_holds) < GOROUTINES ->
       want[s]++; trace("session %d: one more goroutine waits, %d\n", s, want[s], 0) }
  :: d_step { CHURN && want[s] > 0 -> want[s]--; trace("session %d: a goroutine gives up, %d wait\n", s, want[s], 0) }
  :: d_step { want[s] > 0 && may_enter(s) && room -> fresh(s);
       if :: f != NONE -> trace("attempt %d enters\n", f, 0, 0); start(f, ENTER, NONE) :: else fi }
  :: d_step { makes_fair(s) && !dead[s] && count(s, fair_tries) < GOROUTINES && room -> fresh(s);
       if
       :: f != NONE && !kept(FAIR_OWN_TICKET) && count(s, turn_tries) > 0 ->
          fair[f] = 1; joined[f] = 1; state[f] = QUEUED;
          for (a : 0 .. N-1) { if :: is_alive(a) && fair[a] -> earlier[f] = earlier[f] | BIT(a) :: else fi };
          trace("attempt %d, fair, joins the ticket of its session\n", f, 0, 0)
       :: f != NONE && (kept(FAIR_OWN_TICKET) || count(s, turn_tries) == 0) ->
          fair[f] = 1; trace("attempt %d, fair, enters\n", f, 0, 0); start(f, ENTER, NONE)
       :: else
       fi }
  :: d_step { PROMPT && !dead[s] && faults < FAULTS -> dead[s] = 1; want[s] = 0; handovers[s] = 0; fault; trace("session %d dies\n", s, 0, 0);
       for (b : first(s) .. last(s)) {
         state[b] = FREE; until[b] = 0; not_after[b] = 0; copies[b] = 0; early[b] = 0; certain[b] = 0; did[b] = 0;
         idle_died[s] = idle_died[s] || (idle[b] && owner == b); hold_lost[b] = 0; not_kept(b)
       }
       tidy() }
  od
}

#define keeps_first_lease(i) (WARM && idle[i] && kept(FIRST_LEASE))
#define may_idle(i) ((!recalled[i] || !kept(RECALL_ENDS)) && (!longer[i] || !kept(FIRST_LEASE)))
#define may_reuse(i) (reuses[i] < BLOCK && (!recalled[i] || !kept(RECALL_ENDS)) && (until[i] > 0 || !kept(REUSE_IN_TIME)))
/* The recall of a hold that was used again ends its turn. Other turns last as long as ever. */
#define is_over(i) (reuses[i] > 0 && recalled[i] && kept(RECALL_ENDS))

/* A goroutine uses a hold that was idle. As long as its session knows of no waiter, each use begins a turn, and the waiters count anew. */
inline reuse(i) {
  x = reuses[i]; reuses[i] = reuses[i] + kept(NEXT_TOKEN); promise("broken: tokens rise\n", reuses[i] > x);
  if
  :: !recalled[i] -> for (b : 0 .. N-1) { if :: ticket[b] > 0 -> reached(30); count_ahead(b) :: else fi }
  :: else
  fi;
  idle[i] = 0; want[session(i)]--; handovers[session(i)] = 0;
  if :: until[i] == 0 -> until[i] = 1 :: else fi;                       /* it is believed */
  trace("attempt %d is used again, recalled %d, until %d\n", i, recalled[i], until[i])
}

proctype Attempt(byte i) {
  do
  :: d_step { state[i] == ENTERING && room && !did[i] ->
       did[i] = PROMPT; not_after[i] = NOT_AFTER; copies[i] = 1;
       trace("attempt %d enters again\n", i, 0, 0); put(ENTER, i, NONE, LW, NOT_AFTER) }
  :: d_step { (state[i] == QUEUED || (state[i] == REQUEUEING && kept(POLL_AT_ONCE))) && room && !did[i] && !joined[i] ->
       did[i] = PROMPT; trace("attempt %d polls\n", i, 0, 0); put(POLL, i, NONE, LW, 0) }
  :: d_step { PROMPT && (joined[i] || (state[i] == REQUEUEING && !kept(POLL_AT_ONCE))) && !did[i] -> did[i] = 1 }
  :: d_step { waits(i) && !joined[i] && (fair[i] -> CHURN : want[session(i)] == 0) && room -> quit(i) }
  :: d_step { believes(i) && room && !did[i] && !keeps_first_lease(i) ->
       did[i] = PROMPT; longer[i] = WARM; trace("attempt %d renews\n", i, 0, 0); put(RENEW, i, NONE, LH, 0) }
  :: d_step { WARM && believes(i) && !fair[i] && room && !did[i] ->
       did[i] = PROMPT; trace("attempt %d renews for the first lease, idle %d\n", i, idle[i], 0); put(RENEW, i, NONE, LW, 1) }
  :: d_step { WARM && believes(i) && !fair[i] && !idle[i] && want[session(i)] == 0 && may_idle(i) ->
       trace("attempt %d is idle, until %d\n", i, until[i], 0); idle[i] = 1 }
  :: d_step { idle[i] && want[session(i)] > 0 && may_reuse(i) ->
       reached(29); reuse(i); begin(i); check() }
  :: d_step { believes(i) && !idle[i] && !is_over(i) &&
       (!fair[i] || !kept(FAIR_NO_TURN)) && want[session(i)] > 0 && handovers[session(i)] < HANDOVERS ->
       reached(17);                                                     /* it is handed over inside the session */
       handovers[session(i)] = (kept(TURN_COUNTS_HANDOVERS) -> handovers[session(i)] + 1 : 0); want[session(i)]--;
       trace("attempt %d: handed over inside, want %d\n", i, want[session(i)], 0); begin(i) }
  :: d_step { believes(i) && !fair[i] && (!kept(FAIR_BY_TICKET) || !kept(FAIR_OWN_TICKET)) ->
       f = NONE;
       for (b : first(session(i)) .. last(session(i))) {
         if :: fair_waits(b) && (joined[b] || !kept(FAIR_BY_TICKET)) -> f = b :: else fi
       };
       if :: f != NONE -> trace("attempt %d: handed over to fair attempt %d\n", i, f, 0); until[i] = 0; begin(f); quit(i) :: else fi }
  :: d_step { (MOVE || SHORT) && state[i] == BEGUN && !certain[i] && (!copies[i] || !kept(CERTAIN_SENT_ONCE)) ->
       trace("attempt %d is certain to have no ticket\n", i, 0, 0); certain[i] = 1 }
  :: d_step { state[i] == BEGUN && (fair[i] || want[session(i)] == 0 || until[i] == 0 || idle[i]) && room ->
       if :: idle[i] && recalled[i] -> reached(31) :: else fi; quit(i) } /* it was recalled */
  :: d_step { SHORT && believes(i) && (certain[i] || !kept(FREE_IF_CERTAIN)) && (fair[i] || want[session(i)] == 0) && !recalled[i] && room ->
       trace("attempt %d sends the short release\n", i, 0, 0); end(i, RELEASE, 0) }
  :: d_step { turn_holds(i) && want[session(i)] > 0 && room && !(idle[i] && kept(IDLE_IS_LEFT)) -> fresh(session(i));
       promise("broken: a hold that no goroutine uses is ended by a leave\n", !idle[i]);
       if
       :: f == NONE && kept(FRESH_TICKET) -> reached(18); quit(i)        /* it releases, since there is no free id */
       :: else ->
          if :: kept(FRESH_TICKET) -> skip :: else -> f = i fi;
          trace("attempt %d is released and queues again as %d, want %d\n", i, f, want[session(i)]);
          handovers[session(i)] = 0; state[i] = LEAVING; until[i] = 0; did[i] = PROMPT; not_kept(i);
          early[i] = kept(OLD_TO_THE_END) && !no_copy_comes(i);
          start(f, REQUEUE, i); tidy()
       fi }
  :: d_step { state[i] == LEAVING && room && !did[i] && kept(REPEAT_RELEASE) ->
       did[i] = PROMPT; trace("attempt %d leaves again, last %d\n", i, no_copy_comes(i), 0); put(LEAVE, i, NONE, 0, final_leave(i)) }
  :: d_step { PROMPT && state[i] == LEAVING && !did[i] && !kept(REPEAT_RELEASE) -> did[i] = 1 }
  :: d_step { !kept(LEFT_IS_LEFT) && state[i] == LEAVING && want[session(i)] > 0 && may_enter(session(i)) ->
       state[i] = QUEUED; trace("attempt %d is taken over\n", i, 0, 0) }
  od
}

#define arrives trace("  %e of %d (%d) arrives\n", got, me, old)
proctype Wire(byte k) {
  do
  :: d_step { kind[k] == ENTER && !moving -> take(k); arrives; enter(me, t, l); check() }
  :: d_step { kind[k] == POLL && !moving -> take(k); arrives; poll(me, t); check() }
  :: d_step { kind[k] == RENEW && !moving -> take(k); arrives; renew(me, t, l) }
  :: d_step { kind[k] == LEAVE && !moving -> take(k); arrives; leave(me, l); check() }
  :: d_step { kind[k] == ASK && !moving -> take(k); arrives; ask(me) }
  :: d_step { kind[k] == RELEASE -> take(k); arrives; short_release(me); check() }
  :: d_step { kind[k] == REQUEUE && !moving -> take(k); arrives; requeue(me, old, t, l); check() }
  :: d_step { REFUSE && (kind[k] == ENTER || (kind[k] == REQUEUE && limit[k] > 0)) && !moving && (owner != NONE || mark) && may_fail ->
       take(k); trace("  %e of %d (%d) is refused memory\n", got, me, old); fault;
       if :: got == ENTER -> enter_refused(me, t, l) :: else -> requeue(me, old, t, 0) fi; check() }
  :: d_step { request(kind[k]) && kind[k] != RELEASE && moving -> take(k); trace("  TRYAGAIN, the holder key alone: %e of %d (%d)\n", got, me, old);
       holder_alone(me, old, l); check() }
  :: d_step { kind[k] != 0 && !request(kind[k]) -> take(k); arrives; read(me); check() }
  :: d_step { kind[k] != 0 && (PROMPT -> faults < FAULTS : CHURN) -> take(k); trace("  %e of %d (%d) is lost\n", got, me, old); fault }
  :: d_step { (kind[k] == ENTER || kind[k] == REQUEUE || kind[k] == LEAVE || kind[k] == RELEASE) && room && (PROMPT -> faults < FAULTS : DOUBLE) ->
       peek(k); if :: got == ENTER || got == REQUEUE -> copies[me] = 1 :: else fi; fault;
       trace("  %e of %d (%d) is doubled\n", got, me, old); put(got, me, old, t, l) }
  :: d_step { PROMPT && request(kind[k]) && !late[k] && faults < FAULTS ->
       late[k] = 1; fault; trace("  %e of %d (%d) is late\n", kind[k], whose[k], other[k]);
       if :: kind[k] == ENTER || kind[k] == REQUEUE -> copies[whose[k]] = 1 :: else fi; tidy() }
  od
}

/* ---- Other sessions, and the clock ---- */

proctype World() {
  do
  :: d_step { losses < LOSE && (owner != NONE || mark) && may_fail ->
       trace("the key is lost, holder %d, mark %d\n", owner, mark, 0); fault;
       if :: owner < N -> hold_lost[owner] = 1 :: else fi; owner = NONE; expiry = 0; mark = 0; losses++; open = 1 }
  :: d_step { forced < FORCE && owner < N && may_fail ->
       trace("the hold of %d is ended by force, mark %d\n", owner, mark, 0); fault; forced++; hold_lost[owner] = 1;
       if :: mark -> hand_off(NONE) :: else -> owner = NONE; expiry = 0 fi; check() }
  :: d_step { CHOOSE && !unsubscribed[0] && (dead[0] || may_fail) ->
       if :: dead[0] -> skip :: else -> fault fi; unsubscribed[0] = 1; trace("session 0 has no listener any more\n", 0, 0, 0) }
  :: d_step { CHOOSE && !unsubscribed[1] && (dead[1] || may_fail) ->
       if :: dead[1] -> skip :: else -> fault fi; unsubscribed[1] = 1; trace("session 1 has no listener any more\n", 0, 0, 0) }
  :: d_step { FOREIGN && losses > 0 && !was_foreign && may_fail ->
       fault; trace("a ticket of another kind\n", 0, 0, 0); foreign = 1; was_foreign = 1 }
  :: d_step { WARM && room && owner < N && heeds(owner) ->              /* a TryLock elsewhere, which makes no mark */
       trace("a try of another session recalls %d\n", owner, 0, 0); put(RECALL, owner, NONE, 0, 0) }
  :: d_step { WANTED && FORGE && room && owner < N && state[owner] == BEGUN && listens(owner) && may_fail ->
       fault; trace("a forged message for %d\n", owner, 0, 0); put(NOTICE, owner, NONE, 0, 0) }
  :: d_step { MOVE && !moving && may_fail -> moving = 1; fault; trace("the slot moves\n", 0, 0, 0) }
  :: d_step { MOVE && moving -> moving = 0; calm = 0; trace("the slot stays\n", 0, 0, 0) }
  od
}

/* A ticket whose life has ended may be removed. */
proctype Sweep() {
  do :: d_step { !PROMPT && ticket[0] > 0 && life[0] == 0 -> remove_ticket(0) } od
}

/* There is a waiter. A session without a free id for its goroutines is not counted. */
#define anyone_waits ((want[0] > 0 && count(0, turn_tries) > 0) || (want[1] > 0 && count(1, turn_tries) > 0) || any(fair_waits))
#define off_duty(i) ((state[i] != FREE && !did[i]) || (idle[i] && (recalled[i] || want[session(i)] > 0)))
/* There is a waiter, and the session of the holder, which could use its hold again, does not know. */
#define waits_beside(a, i) (a != i && is_alive(a))
#define is_unaware(i) (WARM && owner == i && believes(i) && heeds(i))
#define is_untold(i) (WANTED && owner == i && believes(i) && !told[i] && !unasked[i])
#define could_enter(s) x = 0; if :: want[s] > 0 && may_enter(s) -> fresh(s); x = (f != NONE) :: else fi

proctype Clock() {
  do
  :: d_step { !PROMPT || !any(off_duty) ->
       y = 0; could_enter(0); y = y + x; could_enter(1); y = y + x;
       for (b : 0 .. M-1) { if :: kind[b] != 0 && !late[b] -> y++ :: else fi };
       if
       :: PROMPT && y > 0                    /* a session has not entered yet, or something is on its way: no tick */
       :: else ->
          if
          :: PROMPT ->
             if :: moving -> calm = 0 :: else fi;
             if :: anyone_waits && !any(believes) -> reached(19) :: else fi;                            /* a stall */
             promise("broken: no waiter beside a free lock\n", calm < STALL || any(believes) || !anyone_waits);
             for (b : 0 .. N-1) {
               for (a : 0 .. N-1) {
                 promise("broken: a holder learns of a waiter\n", calm < UNAWARE || !is_unaware(b) || !waits_beside(a, b));
                 promise("broken: a holder is told of a waiter\n", calm < UNAWARE || !is_untold(b) || !is_wanting(a, b) || !is_alive(a));
                 promise("broken: a hold of a dead session that it did not use lasts for the first lease\n",
                         calm < LW || owner != b || !idle_died[session(b)] || !waits_beside(a, b))
               }
             };
             calm = (calm < LONG -> calm + 1 : LONG)
          :: else
          fi;
          lower(expiry);
          if
          :: owner != NONE && expiry == 0 ->
             trace("the hold of %d ends at the server\n", owner, 0, 0); owner = NONE; mark = mark && kept(MARK_OUTLIVES);
             if :: mark -> reached(20) :: else fi                                                       /* the mark stays */
          :: else
          fi;
          for (b : 0 .. 1) { lower(life[b]); lower(paid[b]) };
          for (b : 0 .. N-1) {
            lower(until[b]); lower(not_after[b]); did[b] = 0;
            for (a : 0 .. N-1) { if :: life[session(b)] == 0 -> earlier[a] = earlier[a] & ~BIT(b) :: else fi }
          };
          for (b : 0 .. M-1) { lower(left[b]); if :: kind[b] == ENTER || kind[b] == REQUEUE -> lower(limit[b]) :: else fi };
          tidy(); trace("tick: owner %d, expiry %d, mark %d\n", owner, expiry, mark)
       fi }
  od
}

init {
  atomic {
    for (b : 0 .. N-1) { age[b] = b - first(session(b)) }
    run Session(0); run Session(1);
    for (b : 0 .. N-1) { run Attempt(b) }
    for (b : 0 .. M-1) { run Wire(b) }
    run World(); run Sweep(); run Clock()
  }
}
