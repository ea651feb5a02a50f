// SPDX-License-Identifier: Apache-2.0

/* The queue on the server in which fair locks wait, as docs/engine.md describes it. The file runs beside this one lists the checks;
 * `make model` runs them.
 *
 * One lock, one server, a few waiters. A step is a step of the library, of a script, or of the network: any message may be late,
 * lost, overtaken or delivered twice. A paused process is one that makes no steps for a while.
 *
 * Time. Every deadline is a countdown, and a tick lowers all of them at once. So runs have no end, and states are few. In the code
 * the number of a heartbeat stands for the moment of its sending. Here the number is the life that the heartbeat gives, counting
 * down from that moment. So a message carries the countdown of the deadline that its reader may set, and counts down on its way.
 *
 * Holds. A waiter has one hold id at a time, and a fresh one when no message, ticket or key has the last any more. A goroutine
 * that tries again before that is two waiters of one session (ONE).
 *
 * Each rule can be dropped, -DDROP=<rule>, and then a run has to find what goes wrong without it.
 */

#ifndef N
#define N 2           /* waiters, 2 or 3 */
#endif
#ifndef M
#define M 2           /* messages in flight at a time */
#endif
#ifndef LW
#define LW 2          /* waiter's life: what a heartbeat adds, in ticks */
#endif
#ifndef LH
#define LH 3          /* holder's lease */
#endif
#ifndef GRACE
#define GRACE 0       /* the least that a grant gets */
#endif
#ifndef ONE
#define ONE 0         /* 1: all waiters belong to one session, and live by each other's heartbeats */
#endif
#ifndef PROMPT
#define PROMPT 0      /* 1: a message takes less than a tick, every waiter does its duty in each tick, and faults are counted */
#endif
#define SPARE 1       /* PROMPT: messages on the wire that waiters leave to the server */
#ifndef FAULTS
#define FAULTS 0      /* PROMPT: how many messages are lost, or processes die */
#endif
#ifndef STALL
#define STALL LH      /* PROMPT: after the last fault, ticks in which there may be waiters and no holder */
#endif
#ifndef STRAND
#define STRAND LW     /* PROMPT: after the last fault, ticks in which a waiter that never began may have the lock */
#endif

/* The rules that can be dropped. */
#define FRESH_ID 1           /* an attempt has a hold id of its own */
#define LEAVE_BY_ID 2        /* leave compares the hold id, not the session */
#define NO_BARGING 3         /* enter queues, even if the lock is free */
#define KEEP_TICKET 4        /* enter, run again, keeps its ticket */
#define ENTER_LENGTHENS 5    /* enter, run again for a holder, extends the hold before it replies "you hold" */
#define FROM_SENDING 6       /* a deadline counts from a sending, not from the reading of the reply */
#define FROM_THAT_SENDING 7  /* ... and from the sending of that very request, not of the latest */
#define NAMED_HEARTBEAT 8    /* the grant names the heartbeat that paid; it is not the last one that had a reply */
#define PAST_IS_PAST 9       /* what is read after its deadline begins nothing */
#define ALIVE_ONLY 10        /* a waiter whose life has ended is granted nothing */
#define NEVER_SHORTEN 11     /* a request only extends, however late it arrives */
#define HEARTBEAT_IS_NO_RENEWAL 12 /* a waiter's heartbeat extends its life, and no hold of its session */
#define LEAVE_HANDS_OFF 13   /* leave ends a grant as well, and hands the lock off */
#define LEAVE_AGAIN 14       /* a session that reads something for an attempt that is over leaves once more */
#define POLL_HANDS_OFF 15    /* a poll of a free lock runs the hand-off step */
#ifndef DROP
#define DROP 0
#endif
#define kept(rule) (DROP != rule)

mtype = { ENTER, HEARTBEAT, POLL, RENEW, LEAVE,       /* requests */
          GRANT, HOLD, HAS_TICKET, GONE,              /* the grant message; replies: you hold, you are queued, neither */
          OVER, ENTERING, QUEUED, BEGUN, DEAD };      /* states of a waiter, as attemptState has them: a grant begins at once */

typedef Waiter {
  mtype state = OVER;
  byte until;               /* BEGUN: what is left of the lease, as the waiter knows */
  byte latest;              /* FROM_THAT_SENDING dropped: the countdown of its latest request */
  bit heartbeat_sent; bit poll_sent  /* PROMPT: what it has done of its duty in this tick */
}
Waiter W[N];

/* The server: the holder key, the queue, and for each session its life and the latest heartbeat that pays for it. */
#define OUTSIDER N          /* a holder from outside: it never queues, and never doubts its lease */
#define NONE (N+1)
byte owner = NONE; byte expiry;
byte ticket[N];             /* position in the queue, 1 is the head; 0: no ticket */
byte life[N];
byte paid[N];

/* Only the checks know these. */
byte earlier[N];            /* the waiters that were queued when this one arrived, a bit each */
bit begun;                  /* the owner has begun */
byte faults;
#define LONG 15
byte calm = LONG;           /* ticks since the last fault */

hidden byte b; hidden byte pays;

#define session(w) (ONE -> 0 : (w))
#define waits(w) (W[w].state == ENTERING || W[w].state == QUEUED)
#define tries(w) (waits(w) || W[w].state == BEGUN)
#define believes(w) (W[w].state == BEGUN && W[w].until > 0)
#define believers (believes(0) + believes(1) + (N > 2 && believes(N-1)) + (owner == OUTSIDER))

/* ---- The wire ---- */

#define request(what) (what == ENTER || what == HEARTBEAT || what == POLL || what == RENEW || what == LEAVE)

/* Messages that their reader would ignore are not kept: a message to an attempt that is over (a prompt run leaves again on it), a
 * grant to a holder, a deadline that is not later than the present one. Runs that drop a rule keep the last two. */
#define of_use(what, w, countdown) (request(what) || \
  (what != GONE && (W[w].state == ENTERING || (W[w].state == OVER && PROMPT))) || \
  (what == HOLD && tries(w) && (countdown > W[w].until || DROP)) || \
  (what == GRANT && W[w].state == QUEUED) || \
  (what == HAS_TICKET && W[w].state == QUEUED && !kept(NAMED_HEARTBEAT)) || \
  (what == GONE && tries(w)))

#include "wire.pml"

/* ---- The server ---- */

inline lengthen_life(w, countdown) {
  if :: countdown < paid[session(w)] -> reached(1) :: else fi;         /* a heartbeat overtaken by a later one */
  life[session(w)] = MAX(life[session(w)], LW);
  paid[session(w)] = MAX(paid[session(w)], countdown)
}

inline queue(w) {
  ticket[w] = 1;
  for (a : 0 .. N-1) {
    if :: a != w && ticket[a] > 0 -> ticket[w]++; earlier[w] = earlier[w] | BIT(a) :: else fi
  }
}

inline remove_ticket(w) {
  for (a : 0 .. N-1) {
    if :: ticket[a] > ticket[w] -> ticket[a]-- :: else fi;
    earlier[a] = earlier[a] & ~BIT(w)
  }
  ticket[w] = 0; earlier[w] = 0
}

inline move_to_tail(w) {    /* KEEP_TICKET dropped */
  x = 0;
  for (a : 0 .. N-1) {
    if :: ticket[a] > ticket[w] -> ticket[a]--; x++ :: else fi
  }
  ticket[w] = ticket[w] + x
}

/* w is granted the lock, for what is left of its life. FIFO: no waiter that is alive came earlier. */
inline grant(w) {
  for (a : 0 .. N-1) { promise("broken: first come, first served\n", !(earlier[w] & BIT(a)) || life[session(a)] == 0) }
  owner = w; expiry = (life[session(w)] > 0 -> MAX(life[session(w)], GRACE) : LW); begun = 0;
  remove_ticket(w);
  trace("    the lock goes to %d: expiry %d, paid %d\n", w, expiry, paid[session(w)])
}

/* The hand-off step. Tickets are skipped whose life has ended. The caller reads its grant in its reply, any other waiter in a message. */
inline hand_off(caller) {
  owner = NONE; expiry = 0; begun = 0;
  for (b : 1 .. N) {
    x = 0;
    do :: x < N && ticket[x] != b -> x++ :: else -> break od;
    if :: x < N && life[session(x)] == 0 -> reached(2) :: else fi;     /* a ticket is skipped */
    if :: x < N && (life[session(x)] > 0 || !kept(ALIVE_ONLY)) -> break :: else fi
  }
  if
  :: b <= N ->
     b = x; pays = (kept(NAMED_HEARTBEAT) -> paid[session(b)] : 0);
     grant(b);
     if :: b != caller -> put(b, GRANT, pays) :: else fi
  :: else
  fi
}

inline reply(w, countdown) {
  if
  :: owner == w -> put(w, HOLD, countdown)
  :: owner != w && ticket[w] > 0 -> put(w, HAS_TICKET, (kept(NAMED_HEARTBEAT) -> 0 : countdown))
  :: else -> put(w, GONE, 0)
  fi
}

inline enter(w, countdown) {
  if
  :: owner == w ->
     reached(3);                                                        /* enter, run again for a holder */
     if :: kept(ENTER_LENGTHENS) -> expiry = MAX(expiry, LW) :: else fi
  :: owner != w && ticket[w] > 0 ->
     reached(4);                                                        /* enter, run again for a queued waiter */
     if :: !kept(KEEP_TICKET) -> move_to_tail(w) :: else fi;
     lengthen_life(w, countdown)
  :: else ->
     queue(w); lengthen_life(w, countdown);
     if :: owner == NONE && !kept(NO_BARGING) -> grant(w) :: else fi
  fi;
  if :: owner == NONE -> hand_off(w) :: else fi;
  reply(w, countdown)
}

inline heartbeat(w, countdown) {
  lengthen_life(w, countdown);
  if :: !kept(HEARTBEAT_IS_NO_RENEWAL) && owner < N && session(owner) == session(w) -> expiry = MAX(expiry, LW) :: else fi;
  if :: !kept(NAMED_HEARTBEAT) -> put(w, HAS_TICKET, countdown) :: else fi
}

inline poll(w, countdown) {
  if
  :: owner == w -> expiry = (kept(NEVER_SHORTEN) -> MAX(expiry, LW) : LW)
  :: owner != w && ticket[w] > 0 -> lengthen_life(w, countdown)
  :: else
  fi;
  if :: owner == NONE && kept(POLL_HANDS_OFF) -> hand_off(w) :: else fi;
  reply(w, countdown)
}

inline renew(w, countdown) {
  if
  :: owner == w -> expiry = (kept(NEVER_SHORTEN) -> MAX(expiry, LH) : LH); put(w, HOLD, countdown)
  :: else -> reached(5); put(w, GONE, 0)                                /* a renewal finds no hold */
  fi
}

/* A leave never ends an attempt that still continues. (FRESH_ID dropped: the run continues, until two believe.) */
inline leave(w, held) {
  if
  :: owner == w || (!kept(LEAVE_BY_ID) && owner < N && session(owner) == session(w)) ->
     promise("broken: a hold is ended by its own leave\n", !tries(owner) || !kept(FRESH_ID));
     if :: !begun -> reached(6) :: else -> reached(7) fi;               /* a grant is handed off; a lock is released */
     if :: held || kept(LEAVE_HANDS_OFF) -> hand_off(NONE) :: else fi
  :: else ->
     if :: ticket[w] > 0 -> reached(8); remove_ticket(w) :: else fi     /* a ticket is removed */
  fi
}

/* ---- The waiter ---- */

inline send(w, what, gives) {
  trace("waiter %d sends %e, which gives %d\n", w, what, gives);
  W[w].latest = (kept(FROM_THAT_SENDING) -> 0 : gives);
  put(w, what, gives)
}

inline quit(w) {
  trace("waiter %d leaves in state %e, %d left\n", w, W[w].state, W[w].until);
  put(w, LEAVE, (kept(LEAVE_HANDS_OFF) -> 0 : W[w].state == BEGUN));
  W[w].state = OVER; W[w].until = 0; W[w].latest = 0;
  tidy()
}

/* It holds, if time is left. What comes too late is a hint to poll. */
inline begin(w, countdown) {
  if
  :: countdown > 0 || !kept(PAST_IS_PAST) ->
     W[w].state = BEGUN; W[w].until = MAX(countdown, 1);
     if :: got == GRANT -> reached(9) :: else -> reached(10) fi;        /* it begins by a message; by a reply */
     if :: owner == w -> begun = 1 :: else fi;
     trace("    waiter %d begins, by %e, with %d left\n", w, got, W[w].until)
  :: else ->
     if :: got == GRANT -> reached(11) :: else -> reached(12) fi;       /* a message is too late; a reply */
     W[w].state = QUEUED
  fi
}

inline read(w) {
  if                        /* mistakes about the deadline */
  :: got == HOLD && !kept(FROM_SENDING) -> t = (W[w].state == BEGUN -> LH : LW)
  :: got == HOLD && !kept(FROM_THAT_SENDING) -> t = W[w].latest
  :: got == GRANT && !kept(NAMED_HEARTBEAT) -> t = W[w].until
  :: else
  fi;
  if
  :: got != GONE && W[w].state == OVER && kept(LEAVE_AGAIN) ->
     x = 1;                 /* a leave that is under way does as well */
     for (a : 0 .. M-1) { if :: kind[a] == LEAVE && whose[a] == w -> x = 0 :: else fi }
     if :: x -> reached(13); put(w, LEAVE, 0) :: else fi                /* a second leave */
  :: (got == HOLD || got == GRANT) && waits(w) -> begin(w, t)
  :: got == HOLD && believes(w) -> W[w].until = MAX(W[w].until, t)      /* a lease that has ended stays ended */
  :: got == HAS_TICKET && waits(w) -> W[w].state = QUEUED; W[w].until = MAX(W[w].until, t)
  :: got == GONE && tries(w) -> reached(14); quit(w)                    /* it reads that it is not queued */
  :: else
  fi;
  tidy();
  promise("broken: one holder\n", believers <= 1)
}

#define duty(w, heartbeats, polls) W[w].heartbeat_sent = PROMPT && (heartbeats); W[w].poll_sent = PROMPT && (polls)

proctype Waits(byte w) {
  do
  :: d_step { W[w].state == OVER && ((owner != w && ticket[w] == 0) || !kept(FRESH_ID)) && room ->
       x = 1;
       for (a : 0 .. M-1) { if :: kind[a] != 0 && whose[a] == w && kept(FRESH_ID) -> x = 0 :: else fi }
       if :: x -> W[w].state = ENTERING; duty(w, 1, 1); send(w, ENTER, LW) :: else fi }
  :: d_step { W[w].state == ENTERING && room && !W[w].heartbeat_sent -> duty(w, 1, 1); send(w, ENTER, LW) }
  :: d_step { W[w].state == QUEUED && room && !W[w].heartbeat_sent -> duty(w, 1, W[w].poll_sent); send(w, HEARTBEAT, LW) }
  :: d_step { W[w].state == QUEUED && room && !W[w].poll_sent -> duty(w, W[w].heartbeat_sent, 1); send(w, POLL, LW) }
  :: d_step { believes(w) && room && !W[w].heartbeat_sent -> duty(w, 1, 1); send(w, RENEW, LH) }
  :: d_step { tries(w) && room -> if :: W[w].state == BEGUN && W[w].until == 0 -> reached(15) :: else fi; /* its lease ends */
       quit(w) }
  :: d_step { PROMPT && !ONE && tries(w) && faults < FAULTS -> reached(16);                                /* it dies */
       trace("waiter %d dies in state %e, %d left\n", w, W[w].state, W[w].until);
       W[w].state = DEAD; W[w].until = 0; faults++; calm = 0; tidy() }
  od
}

/* One message in flight. It arrives, is lost, or arrives and arrives again. */
proctype Wire(byte k) {
  do
  :: d_step { kind[k] == ENTER -> take(k); arrives; enter(me, t) }
  :: d_step { kind[k] == HEARTBEAT -> take(k); arrives; heartbeat(me, t) }
  :: d_step { kind[k] == POLL -> take(k); arrives; poll(me, t) }
  :: d_step { kind[k] == RENEW -> take(k); arrives; renew(me, t) }
  :: d_step { kind[k] == LEAVE -> take(k); arrives; leave(me, t) }
  :: d_step { kind[k] != 0 && !request(kind[k]) -> take(k); arrives; read(me) }
  :: d_step { kind[k] != 0 && (!PROMPT || faults < FAULTS) -> take(k);
       trace("  %e of waiter %d is lost, with %d left\n", got, me, t);
       if :: PROMPT -> reached(17); faults++; calm = 0 :: else fi }    /* a loss that counts */
  :: d_step { (kind[k] == ENTER || kind[k] == LEAVE) && !PROMPT && room -> peek(k); reached(18); /* a request is doubled */
       trace("  %e of waiter %d is doubled, with %d left\n", got, me, t);
       put(me, got, t) }
  od
}

/* ---- Other holders, and the clock ---- */

/* It acquires the lock only while the queue is empty, as a try does, and renews in time, any number of times. */
proctype Outsider() {
  do
  :: d_step { owner == NONE && ticket[0] + ticket[1] + ticket[N-1] == 0 -> owner = OUTSIDER; expiry = 1;
       trace("an outsider acquires the lock\n", 0, 0, 0);
       promise("broken: one holder\n", believers <= 1) }
  :: d_step { owner == OUTSIDER -> trace("the outsider releases\n", 0, 0, 0); hand_off(NONE) }
  od
}

/* A ticket whose life has ended may be removed, at once or much later. */
proctype Sweep() {
  do
  :: d_step { ticket[0] > 0 && life[session(0)] == 0 -> reached(19); remove_ticket(0) }                    /* a ticket is swept */
  :: d_step { ticket[1] > 0 && life[session(1)] == 0 -> remove_ticket(1) }
  :: d_step { N > 2 && ticket[N-1] > 0 && life[session(N-1)] == 0 -> remove_ticket(N-1) }
  od
}

#define anyone_waits (waits(0) || waits(1) || waits(N-1))
#define on_duty(w) (!tries(w) || (W[w].heartbeat_sent && W[w].poll_sent))

proctype Clock() {
  do
  :: d_step { !PROMPT || (kind[0] == 0 && on_duty(0) && on_duty(1) && on_duty(N-1)) ->
       if
       :: PROMPT ->
          promise("broken: some waiter holds\n", calm < STALL || believers > 0 || !anyone_waits);
          promise("broken: no grant is lost\n", calm < STRAND || owner >= N || begun);
          if :: believers == 0 && anyone_waits -> reached(20) :: else fi;                                  /* a stall */
          calm = (calm < LONG -> calm + 1 : LONG)
       :: else
       fi;
       if :: owner != OUTSIDER -> lower(expiry) :: else fi;
       if :: owner < N && expiry == 0 -> reached(21); owner = NONE; begun = 0 :: else fi;                  /* a key expires */
       for (b : 0 .. N-1) {
         lower(life[b]); lower(paid[b]); lower(W[b].until); lower(W[b].latest);
         W[b].heartbeat_sent = 0; W[b].poll_sent = 0
       }
       for (b : 0 .. M-1) { lower(left[b]) }
       tidy();
       trace("tick: owner %d, expiry %d, life %d\n", owner, expiry, life[0] * 10 + life[1]) }
  od
}

init {
  atomic {
    for (b : 0 .. N-1) { run Waits(b) }
    for (b : 0 .. M-1) { run Wire(b) }
    run Outsider(); run Sweep(); run Clock()
  }
}
