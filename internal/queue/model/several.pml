// SPDX-License-Identifier: Apache-2.0

/* The queue of locks with several holders at once, as docs/engine.md describes it: a weighted semaphore, and with -DRW=1 a read-write
 * lock, which is a semaphore whose writers want all of its capacity. Read queue.pml first: time, messages, waiters, and the rules for
 * each grant by itself, are the same, and are not repeated here.
 *
 * The server keeps a set of holds, each with its weight and the time at which it ends. A hold that has ended stays in the set, and
 * uses capacity, until a step removes it.
 *
 * A waiter makes the same request each time. A read-write lock has capacity for all waiters as readers.
 */

#ifndef N
#define N 3           /* waiters, 2 or 3 */
#endif
#ifndef WIDE
#define WIDE 1        /* so many of them, the last, want all of the capacity (RW: write), the others 1 (RW: read) */
#endif
#ifndef RW
#define RW 0
#endif
#define CAP (RW -> N : 2)
#ifndef M
#define M 2
#endif
#ifndef LW
#define LW 2
#endif
#ifndef LH
#define LH 3
#endif
#ifndef ONE
#define ONE 0
#endif
#ifndef PROMPT
#define PROMPT 0
#endif
#ifndef LISTENERS
#define LISTENERS 0   /* 1: sessions may lose their listeners at the server, and a hand-off passes over those that have */
#endif
#ifndef KILL
#define KILL 0        /* PROMPT, LISTENERS: 1: the faults are waiters that are killed before they are granted a hold, and nothing else */
#endif
#ifndef SPARE
#define SPARE 3       /* PROMPT: room on the wire that waiters leave to the server, which may send three messages in one step */
#endif
#ifndef FAULTS
#define FAULTS 0
#endif
#ifndef STALL
#define STALL LH      /* PROMPT: after the last fault, ticks in which a waiter may wait that could enter */
#endif
#ifndef STRAND
#define STRAND LW     /* PROMPT: after the last fault, ticks in which a waiter that never began may have a hold */
#endif

/* The rules that can be dropped: those of several grants, and one that each grant rests on. */
#define NAMED_HEARTBEAT 1    /* the grant names the heartbeat that paid; it is not the last one that had a reply */
#define NEVER_CREATE 2       /* a poll extends a hold that is in the set, and adds none */
#define COUNT_THE_SET 3      /* a hold uses capacity for as long as it is in the set, ended or not */
#define ALIVE_ONLY 4         /* each waiter that is granted a hold is alive */
#define HEAD_BLOCKS 5        /* the first waiter alive that does not fit keeps out later waiters */
#define DEAD_BLOCK_NONE 6    /* ... and a waiter whose life has ended does not */
#define POLL_HANDS_OFF 7     /* a poll runs the hand-off step, also while there are holds */
#define TICKET_HANDS_OFF 8   /* leave runs the hand-off step, even if it found only a ticket */
#define LEAVE_TO_THE_END 9   /* leave is repeated until it has a reply, and until no enter of the attempt can arrive after it */
#define READERS_TURN 10      /* when a writer is done, all readers that wait enter before the next writer */
#define ENDED_IS_DONE 11     /* ... even if its hold has ended by itself */
#define TURN_IS_KEPT 12      /* ... even if the step that removed the hold grants nothing */
#define DOWN_FROM_SENDING 13 /* a downgrading writer stops writing when it sends the downgrade */
#define DOWN_ONCE 14         /* a downgrade that runs again is no second end of a writer */
#define DOWN_HANDS_OFF 15    /* a downgrade runs the hand-off step */
#define DOWN_AGAIN 16        /* a downgrade is repeated until it has a reply */
#define LISTENING_ONLY 17    /* LISTENERS: a waiter whose session has no listener any more is granted nothing */
#define UNSUBSCRIBED_BLOCK_NONE 18   /* ... and keeps out no waiter behind it */
#define POLL_IS_LISTENING 19 /* ... until its next poll */
#ifndef DROP
#define DROP 0
#endif
#define kept(rule) (DROP != rule)

mtype = { ENTER, HEARTBEAT, POLL, RENEW, DOWN, LEAVE, GRANT, HOLD, HAS_TICKET, DONE, GONE, OVER, ENTERING, QUEUED, BEGUN, LEAVING, DEAD };

typedef Waiter {
  mtype state = OVER;
  byte until;
  bit down;                 /* a writer that no longer writes, but reads */
  bit enter_pending;        /* PROMPT: an enter of this tick has no reply; a grant is no reply */
  bit certain;              /* PROMPT: BEGUN, its downgrade has a reply; LEAVING, no enter of its attempt can arrive any more */
  bit did                   /* PROMPT: it has done its duty in this tick */
}
Waiter W[N];

/* The server: the set of holds, the queue, and the sessions. */
byte uses[N];               /* the weight of a hold in the set; 0: no hold */
byte ends[N];               /* what is left of it */
byte ticket[N];
bit turn[N];                /* RW: a reader that came before the last writer was done */
byte life[N];
byte paid[N];
bit unsubscribed[N];        /* it listened when it last polled, and no longer does */

/* Only the checks know these. */
bit begun[N];
bit owed[N];                /* a reader that was queued when a writer was done */
bit skippable[N];           /* a session that has lost its listener, and has not polled since */
byte faults;
#define LONG 15
byte calm = LONG;

hidden byte b; hidden byte c; hidden byte used; hidden byte pays; hidden byte requester; hidden byte d;

#define NONE N
#define wants(w) ((w) >= N-WIDE -> CAP : 1)
#define reader(w) (wants(w) == 1)
#define session(w) (ONE -> 0 : (w))
#define is_alive(w) (life[session(w)] > 0)
#define waits(w) (W[w].state == ENTERING || W[w].state == QUEUED)
#define over(w) (W[w].state == OVER || W[w].state == LEAVING)
#define tries(w) (waits(w) || W[w].state == BEGUN)
#define believes(w) (W[w].state == BEGUN && W[w].until > 0)
#define believed(w) (believes(w) -> (W[w].down -> 1 : wants(w)) : 0)
#define believed_all (believed(0) + believed(1) + (N > 2 -> believed(N-1) : 0))

#define request(what) (what == ENTER || what == HEARTBEAT || what == POLL || what == RENEW || what == DOWN || what == LEAVE)
#define of_use(what, w, countdown) (request(what) || \
  (what != GONE && what != DONE && (W[w].state == ENTERING || (over(w) && PROMPT))) || \
  (what == HOLD && tries(w) && (countdown > W[w].until || DROP)) || \
  (what == GRANT && W[w].state == QUEUED) || \
  (what == HAS_TICKET && W[w].state == QUEUED && !kept(NAMED_HEARTBEAT)) || \
  (what == DONE && W[w].state == BEGUN && !W[w].certain && (PROMPT || !kept(DOWN_FROM_SENDING))) || \
  (what == DONE && W[w].state == LEAVING) || \
  (what == GONE && tries(w)))

#include "wire.pml"

/* ---- The server ---- */

/* A heartbeat. */
inline lengthen_life(w, countdown) {
  life[session(w)] = MAX(life[session(w)], LW);
  paid[session(w)] = MAX(paid[session(w)], countdown)
}

/* A heartbeat with a poll notes whether the session has a listener. A session without one may listen elsewhere, and counts as listening. */
inline note_listener(w, countdown) {
  lengthen_life(w, countdown);
  if :: kept(POLL_IS_LISTENING) -> unsubscribed[session(w)] = 0 :: else fi;
  skippable[session(w)] = 0
}

inline remove_ticket(w) {
  for (a : 0 .. N-1) { if :: ticket[a] > ticket[w] -> ticket[a]-- :: else fi }
  ticket[w] = 0; turn[w] = 0; owed[w] = 0
}

/* A writer is done. The server keeps the time of that: it is the turn of the readers with earlier tickets. */
#define waiting_reader(w) (RW && ticket[w] > 0 && reader(w))
inline keep_turn() { for (a : 0 .. N-1) { turn[a] = turn[a] || waiting_reader(a) } }
inline writer_done() { for (a : 0 .. N-1) { owed[a] = owed[a] || waiting_reader(a) } }

inline remove_hold(w, keeps) {
  if :: uses[w] == CAP -> writer_done(); if :: keeps -> keep_turn() :: else fi :: else fi;
  uses[w] = 0; ends[w] = 0; begun[w] = 0
}

/* The capacity in use. */
inline count() {
  used = 0;
  for (a : 0 .. N-1) { used = used + (ends[a] > 0 || kept(COUNT_THE_SET) -> uses[a] : 0) }
}

/* w gets a hold, for what is left of its life. No waiter alive is before it, unless w reads and a writer was done while it
 * waited. Such readers come before the next writer. */
inline grant(w, caller) {
  for (a : 0 .. N-1) {
    promise("broken: first come, first served\n", ticket[a] == 0 || ticket[a] >= ticket[w] || !is_alive(a) || owed[w] || skippable[session(a)]);
    promise("broken: readers between writers\n", reader(w) || !owed[a] || !is_alive(a) || skippable[session(a)])
  }
  uses[w] = wants(w); ends[w] = (is_alive(w) -> life[session(w)] : LW); begun[w] = 0;
  remove_ticket(w);
  trace("    %d is granted: ends %d, paid %d\n", w, ends[w], paid[session(w)]);
  pays = (kept(NAMED_HEARTBEAT) -> paid[session(w)] : 0);
  if :: w != caller -> put(w, GRANT, pays) :: else fi;
  count()
}

/* The session that sent the request reads its grants in the reply. */
#define is_listening(w) (!LISTENERS || !unsubscribed[session(w)] || session(w) == requester || !kept(LISTENING_ONLY))
#define may_be_granted(w) ((is_alive(w) || !kept(ALIVE_ONLY)) && is_listening(w))

/* The readers' turn is over. A reader that was passed over is counted anew. */
inline end_turn() { for (a : 0 .. N-1) { turn[a] = 0; owed[a] = 0 } }

/* The hand-off step. It removes holds that have ended, grants the readers whose turn it is, and then grants from the head while
 * requests fit. */
inline hand_off(caller) {
  for (b : 0 .. N-1) {
    if
    :: uses[b] > 0 && ends[b] == 0 && kept(COUNT_THE_SET) ->
       reached(0); remove_hold(b, kept(ENDED_IS_DONE))                  /* a hold that has ended is removed */
    :: else
    fi
  }
  count();
  d = 0;
  for (b : 0 .. N-1) {
    if
    :: turn[b] && may_be_granted(b) && used < CAP && kept(READERS_TURN) ->
       reached(1); d = 1; grant(b, caller)                              /* a reader enters in its turn */
    :: else
    fi
  }
  if :: d -> end_turn() :: else fi;
  b = 1;
  do
  :: b <= N ->
     x = 0;
     do :: x < N && ticket[x] != b -> x++ :: else -> break od;
     if
     :: x == N -> break
     :: x < N && !may_be_granted(x) ->
        if
        :: (is_alive(x) -> !kept(UNSUBSCRIBED_BLOCK_NONE) : !kept(DEAD_BLOCK_NONE)) && used + wants(x) > CAP -> break
        :: else -> reached(2); if :: is_alive(x) -> reached(13) :: else fi; b++  /* a ticket is skipped, of a session that is alive */
        fi
     :: x < N && may_be_granted(x) && used + wants(x) <= CAP -> c = x; grant(c, caller)
     :: x < N && may_be_granted(x) && used + wants(x) > CAP ->
        if :: kept(HEAD_BLOCKS) -> break :: else -> b++ fi
     fi
  :: else -> break
  od;
  if :: !kept(TURN_IS_KEPT) -> for (a : 0 .. N-1) { turn[a] = 0 } :: else fi
}

inline reply(w, countdown) {
  if
  :: uses[w] > 0 -> put(w, HOLD, countdown)
  :: uses[w] == 0 && ticket[w] > 0 -> put(w, HAS_TICKET, (kept(NAMED_HEARTBEAT) -> 0 : countdown))
  :: else -> put(w, GONE, 0)
  fi
}

inline lengthen(w, least) { ends[w] = MAX(ends[w], least) }

inline enter(w, countdown) {
  requester = session(w);
  if
  :: uses[w] > 0 -> reached(3); lengthen(w, LW)                         /* enter, run again for a holder */
  :: uses[w] == 0 && ticket[w] > 0 -> note_listener(w, countdown)
  :: else ->
     ticket[w] = 1;
     for (a : 0 .. N-1) { if :: a != w && ticket[a] > 0 -> ticket[w]++ :: else fi }
     note_listener(w, countdown)
  fi;
  hand_off(w);
  reply(w, countdown)
}

/* The caller's own hold comes first: it is extended, even after its end, before ended holds are removed. */
inline poll(w, countdown) {
  requester = session(w);
  if
  :: uses[w] > 0 || (ticket[w] == 0 && !kept(NEVER_CREATE)) ->
     if :: uses[w] > 0 && ends[w] == 0 -> reached(4) :: else fi;        /* a hold that has ended is extended */
     uses[w] = (uses[w] > 0 -> uses[w] : wants(w)); lengthen(w, LW)
  :: uses[w] == 0 && ticket[w] > 0 -> note_listener(w, countdown)
  :: else
  fi;
  count();
  if :: kept(POLL_HANDS_OFF) || used == 0 -> hand_off(w) :: else fi;
  reply(w, countdown)
}

inline renew(w, countdown) {
  if
  :: ends[w] > 0 -> lengthen(w, LH); put(w, HOLD, countdown)
  :: else -> reached(5); put(w, GONE, 0)                                /* a renewal finds no hold */
  fi
}

inline downgrade(w) {
  requester = session(w);
  if
  :: ends[w] > 0 ->
     if
     :: uses[w] == CAP -> writer_done(); keep_turn()
     :: else -> reached(6); if :: !kept(DOWN_ONCE) -> keep_turn() :: else fi    /* a downgrade runs again */
     fi;
     uses[w] = 1; put(w, DONE, 0);
     if :: kept(DOWN_HANDS_OFF) -> hand_off(NONE); end_turn() :: else fi
  :: else -> put(w, GONE, 0)
  fi
}

inline leave(w) {
  requester = session(w);
  if
  :: uses[w] > 0 ->
     promise("broken: a hold is ended by its own leave\n", !tries(w));
     if :: !begun[w] -> reached(7) :: else fi;                          /* a grant is handed off */
     remove_hold(w, 1); hand_off(NONE)
  :: uses[w] == 0 && ticket[w] > 0 ->
     remove_ticket(w);
     if :: kept(TICKET_HANDS_OFF) -> hand_off(NONE) :: else fi
  :: else
  fi;
  put(w, DONE, 0)
}

/* ---- The waiter ---- */

#define duty(w) W[w].did = PROMPT
#define repeats (PROMPT && kept(LEAVE_TO_THE_END))

inline send(w, what, gives) {
  trace("waiter %d sends %e, which gives %d\n", w, what, gives);
  put(w, what, gives)
}

/* A prompt waiter repeats its leave in each tick until it has the reply to one that it sent when no enter was on its way any more:
 * its first, if each enter that it sent had a reply, else one of the next tick. */
inline quit(w) {
  trace("waiter %d leaves in state %e, %d left\n", w, W[w].state, W[w].until);
  put(w, LEAVE, 0);
  W[w].certain = repeats && !W[w].enter_pending;
  W[w].state = (repeats -> LEAVING : OVER);
  W[w].until = 0; W[w].down = 0; W[w].enter_pending = 0; duty(w);
  tidy()
}

inline begin(w, countdown) {
  if
  :: countdown > 0 ->
     W[w].state = BEGUN; W[w].until = countdown;
     if :: got == GRANT -> reached(8) :: else -> reached(9) fi;        /* it begins by a message; by a reply */
     begun[w] = uses[w] > 0;
     trace("    waiter %d begins, by %e, with %d left\n", w, got, W[w].until)
  :: else -> reached(10); W[w].state = QUEUED                          /* the reply or grant comes too late */
  fi
}

inline read(w) {
  if :: got == GRANT && !kept(NAMED_HEARTBEAT) -> t = W[w].until :: else fi;
  if
  :: got != GONE && got != DONE && over(w) ->
     x = 1;
     for (a : 0 .. M-1) { if :: kind[a] == LEAVE && whose[a] == w -> x = 0 :: else fi }
     if :: x -> reached(11); put(w, LEAVE, 0) :: else fi                /* a second leave */
  :: (got == HOLD || got == GRANT) && waits(w) -> W[w].enter_pending = W[w].enter_pending && got == GRANT; begin(w, t)
  :: got == HOLD && believes(w) -> W[w].until = MAX(W[w].until, t)
  :: got == HAS_TICKET && waits(w) -> W[w].state = QUEUED; W[w].enter_pending = 0; W[w].until = MAX(W[w].until, t)
  :: got == DONE && W[w].state == BEGUN -> W[w].down = 1; W[w].certain = PROMPT
  :: got == DONE && W[w].state == LEAVING && W[w].certain -> W[w].state = OVER; W[w].certain = 0; W[w].did = 0
  :: got == GONE && tries(w) -> quit(w)
  :: else
  fi;
  tidy();
  promise("broken: within the capacity\n", believed_all <= CAP)
}

#define writes(w) (believes(w) && !reader(w) && RW)
#define downgrades(w) (!W[w].down || (PROMPT && !W[w].certain && !W[w].did && kept(DOWN_AGAIN)))
#define renews(w) (!W[w].did && (!PROMPT || !W[w].down || W[w].certain || !kept(DOWN_AGAIN)))

#define send_enter(w) W[w].enter_pending = PROMPT; duty(w); send(w, ENTER, LW)

/* No message from or to w is on its way: of those of a prompt run, five. */
#define quiet(k, w) (kind[k] == 0 || whose[k] != w)
#define idle(w) (quiet(0, w) && quiet(1, w) && quiet(M-3, w) && quiet(M-2, w) && quiet(M-1, w))

inline lose_listener(s) { unsubscribed[s] = 1; skippable[s] = 1; trace("session %d has no listener any more\n", s, 0, 0) }

proctype Waits(byte w) {
  do
  :: d_step { W[w].state == OVER && uses[w] == 0 && ticket[w] == 0 && room ->
       x = 1;
       for (a : 0 .. M-1) { if :: kind[a] != 0 && whose[a] == w -> x = 0 :: else fi }
       if :: x -> W[w].state = ENTERING; send_enter(w) :: else fi }
  :: d_step { W[w].state == ENTERING && room && !W[w].did -> send_enter(w) }
  :: d_step { W[w].state == QUEUED && room && !PROMPT -> send(w, HEARTBEAT, LW) }
  :: d_step { W[w].state == QUEUED && room && !W[w].did -> duty(w); send(w, POLL, LW) }
  :: d_step { believes(w) && room && renews(w) -> duty(w); send(w, RENEW, LH) }
  :: d_step { writes(w) && room && downgrades(w) ->
       duty(w); if :: kept(DOWN_FROM_SENDING) -> W[w].down = 1 :: else fi; send(w, DOWN, 0) }
  :: d_step { tries(w) && room -> quit(w) }
  :: d_step { W[w].state == LEAVING && room && !W[w].did -> duty(w); send(w, LEAVE, 0) }
  :: d_step { PROMPT && !ONE && faults < FAULTS &&
       (KILL -> W[w].state == QUEUED && ticket[w] > 0 && idle(w) : tries(w) || W[w].state == LEAVING) ->
       trace("waiter %d dies in state %e, %d left\n", w, W[w].state, W[w].until);
       if :: KILL -> lose_listener(w) :: else fi;
       W[w].state = DEAD; W[w].until = 0; W[w].down = 0; W[w].enter_pending = 0; W[w].certain = 0; W[w].did = 0;
       faults++; calm = 0; tidy() }
  od
}

proctype Wire(byte k) {
  do
  :: d_step { kind[k] == ENTER -> take(k); arrives; enter(me, t) }
  :: d_step { kind[k] == HEARTBEAT -> take(k); arrives; lengthen_life(me, t);
       if :: !kept(NAMED_HEARTBEAT) -> put(me, HAS_TICKET, t) :: else fi }
  :: d_step { kind[k] == POLL -> take(k); arrives; poll(me, t) }
  :: d_step { kind[k] == RENEW -> take(k); arrives; renew(me, t) }
  :: d_step { kind[k] == DOWN -> take(k); arrives; downgrade(me) }
  :: d_step { kind[k] == LEAVE -> take(k); arrives; leave(me) }
  :: d_step { kind[k] != 0 && !request(kind[k]) -> take(k); arrives; read(me) }
  :: d_step { kind[k] != 0 && (!PROMPT || (faults < FAULTS && !KILL)) -> take(k);
       trace("  %e of waiter %d is lost, with %d left\n", got, me, t);
       if :: PROMPT -> reached(12); faults++; calm = 0 :: else fi }     /* a loss that counts */
  :: d_step { (kind[k] == ENTER || kind[k] == DOWN || kind[k] == LEAVE) && !PROMPT && room -> peek(k);
       trace("  %e of waiter %d is doubled, with %d left\n", got, me, t);
       put(me, got, t) }
  od
}

/* A session that is alive may lose its listener at any time, and a dead session has lost it. */
#define may_lose(s) (LISTENERS && !KILL && life[s] > 0 && !unsubscribed[s] && (!PROMPT || W[s].state == DEAD || faults < FAULTS))
inline loses(s) {
  if :: PROMPT && W[s].state != DEAD -> faults++; calm = 0 :: else fi;
  lose_listener(s)
}
proctype Listeners() {
  do
  :: d_step { may_lose(0) -> loses(0) }
  :: d_step { !ONE && may_lose(1) -> loses(1) }
  :: d_step { !ONE && N > 2 && may_lose(N-1) -> loses(N-1) }
  od
}

/* What has ended may be removed, by steps that grant nothing: tickets, and holds of the last waiter, which is the wide one. */
proctype Sweep() {
  do
  :: d_step { ticket[0] > 0 && !is_alive(0) -> remove_ticket(0) }
  :: d_step { ticket[1] > 0 && !is_alive(1) -> remove_ticket(1) }
  :: d_step { N > 2 && ticket[N-1] > 0 && !is_alive(N-1) -> remove_ticket(N-1) }
  :: d_step { uses[N-1] > 0 && ends[N-1] == 0 -> remove_hold(N-1, kept(TURN_IS_KEPT)) }
  od
}

#define on_duty(w) (W[w].did || !(tries(w) || W[w].state == LEAVING))

/* A waiter that could enter: it fits beside those that believe, and no waiter is before it. */
#define before(v, w) (waits(v) && ticket[v] > 0 && (ticket[w] == 0 || ticket[v] < ticket[w]))
#define could(w) (waits(w) && believed_all + wants(w) <= CAP && !before(0, w) && !before(1, w) && !before(N-1, w))

proctype Clock() {
  do
  :: d_step { !PROMPT || (kind[0] == 0 && on_duty(0) && on_duty(1) && on_duty(N-1)) ->
       if
       :: PROMPT ->
          promise("broken: no waiter that fits is left waiting\n", calm < STALL || !(could(0) || could(1) || could(N-1)));
          for (b : 0 .. N-1) { promise("broken: no grant is lost\n", calm < STRAND || ends[b] == 0 || begun[b]) }
          calm = (calm < LONG -> calm + 1 : LONG)
       :: else
       fi;
       for (b : 0 .. N-1) { lower(ends[b]); lower(life[b]); lower(paid[b]); lower(W[b].until); W[b].did = 0; W[b].enter_pending = 0;
         unsubscribed[b] = unsubscribed[b] && life[b] > 0; skippable[b] = skippable[b] && life[b] > 0;
         if :: W[b].state == LEAVING -> W[b].certain = 1 :: else fi }
       for (b : 0 .. M-1) { lower(left[b]) }
       tidy();
       trace("tick: holds of %d %d %d\n", uses[0], uses[1], uses[N-1]);
       trace("    that end in %d %d %d\n", ends[0], ends[1], ends[N-1]) }
  od
}

init {
  atomic {
    for (b : 0 .. N-1) { run Waits(b) }
    for (b : 0 .. M-1) { run Wire(b) }
    if :: LISTENERS -> run Listeners() :: else fi;
    run Sweep(); run Clock()
  }
}
