// SPDX-License-Identifier: Apache-2.0

/* Who owns a shard: the members of a group of package shards, their leases, and the functions that run while they own. What the scripts
 * do to all members before they reply is in work.pml; spread.pml is the model of loads. The file runs beside this one lists the checks;
 * `make model` runs them.
 *
 * One group, one server, a few processes. A step is a step of the library, of a script, or of the network: any message may be late,
 * lost, overtaken or delivered twice. A paused process is one that makes no steps for a while; its contexts end by their deadlines.
 * A message that a shard has moved is a hint to poll and has no authority. A process may poll at any time, so hints are left out.
 *
 * Time. As in queue.pml, every deadline is a countdown, and a tick lowers all of them at once. A poll carries the countdown of the
 * deadline that its reply may set, and counts down on its way.
 *
 * Numbers. Members have numbers, and a number is used again when no message, row or process has it any more. Tokens are ranks: those of
 * a shard are renumbered after each step, in their order. A reply to a poll has news of one shard, and the next poll those of another.
 *
 * Prompt runs bound time: a message takes less than a tick, every process does its duty in each tick, a function that has to stop
 * returns before the next tick, and what differs from that is a fault. Only they have a server that becomes empty, or
 * a clock that jumps: the promise for these is that members reach the server in time.
 *
 * A resize needs no step of its own. Its script asks for every shard and grants none of the new set before no row has an owner, and
 * a live context is that of the owner at the server; so no two sets have live contexts at once. Limits and bans choose an owner: they
 * are in spread.pml. The number of moves at once delays a move alone.
 *
 * Each rule can be dropped, -DDROP=<rule>, and then a run has to find what goes wrong without it.
 */

#ifndef P
#define P 2           /* processes, 2 or 3 */
#endif
#ifndef N
#define N 1           /* shards */
#endif
#ifndef I
#define I (P + 1)     /* numbers of members */
#endif
#ifndef M
#define M 2           /* messages in flight at a time */
#endif
#ifndef BATCH
#define BATCH 1       /* shards that a script moves at most */
#endif
#ifndef LIFE
#define LIFE 2        /* the lease of a member at the server, in ticks */
#endif
#ifndef MARGIN
#define MARGIN 0      /* how much earlier the contexts of its shards end */
#endif
#ifndef CHURN
#define CHURN 1       /* 1: processes die and come back, any number of times; messages are lost */
#endif
#ifndef DOUBLE
#define DOUBLE 1      /* 1: join, release and leave are doubled, any number of times */
#endif
#ifndef ELSEWHERE
#define ELSEWHERE 1   /* 1: functions return and want their shard elsewhere */
#endif
#ifndef PROMPT
#define PROMPT 0
#endif
#ifndef RENEWS
#define RENEWS 0      /* 1: members renew by the key of the ends as well */
#endif
#ifndef FAULTS
#define FAULTS 0      /* PROMPT: how many messages are lost or late, processes die or stop, functions hang for a tick */
#endif
#ifndef LOSE
#define LOSE 0        /* PROMPT: how often the server comes back empty */
#endif
#ifndef JUMP
#define JUMP 0        /* PROMPT: how often the server's clock jumps over all leases */
#endif
#ifndef DRIFT
#define DRIFT 0       /* PROMPT: how often the server's clock is set forward by a tick */
#endif
#ifndef DRAIN
#define DRAIN 0       /* drains end by force: 1: at any time after the owner has heard that it was asked. PROMPT (N is 1): after so many ticks */
#endif
#ifndef HANGS
#define HANGS 0       /* PROMPT: how many functions that have to stop never return */
#endif
#ifndef MOVES
#define MOVES 0       /* how often shard 0 is moved by hand */
#endif
#ifndef CHANGES
#define CHANGES 0     /* PROMPT: how often a member leaves, or a process comes back */
#endif
#define SILENCE 2     /* PROMPT: ticks without a script after which nothing is reaped for a while */
#define AMNESTY 2     /* for so long */
#define PAUSE 2       /* PROMPT: ticks in which a new group grants nothing */
#define RECENT 2       /* PROMPT: ticks after a poll in which a member is granted shards */
#ifndef STALL
#define STALL (LIFE + AMNESTY + PAUSE + DRAIN + (DRAIN > 0))  /* PROMPT: after the last fault, ticks in which a shard may have no running function */
#endif
#define EVEN (STALL + 2)                /* PROMPT: ... in which the functions may be spread unevenly */

/* The rules that can be dropped. */
#define FRESH_NUMBER 1    /* a member's number was never used before, also if the server was empty meanwhile */
#define GROWING_TOKENS 2  /* tokens are greater than all before, also if the server was empty meanwhile */
#define TOKEN 3           /* a release compares the token of the shard */
#define POLL_FIRST 4      /* a member is granted nothing before its first poll */
#define LATE_IS_LATE 5    /* a grant with a token that is not greater than the last one begins nothing */
#define DECLINE 6         /* a process declines a shard whose last function still runs in it */
#define AFTER_RETURN 7    /* a shard is released when its function has returned */
#define CONTEXT_FIRST 8   /* contexts end earlier than the lease at the server */
#define FROM_SENDING 9    /* a deadline counts from a sending, not from the reading of the reply */
#define NEVER_SHORTEN 10  /* a request only extends a lease, however late it arrives */
#define FORGIVE 11        /* amnesty: after a silence nothing is reaped for a while */
#define FORGIVE_ONE 12    /* ... also if there is one member besides the caller; not only if there are two */
#define WAIT_AT_FIRST 13  /* a new group grants nothing for a while */
#define FORCE 14          /* a drain that takes longer than its limit ends, and its shard is granted to another member */
#define FROM_KNOWING 15   /* the limit counts from a poll that says that the owner has heard; not from the reply that asks it */
#define WHEN_STOPPED 17     /* a leave says that the member is done when none of its functions runs */
#define KNOWN_BY_TOKEN 16   /* a poll names what its sender has heard, so that a late one says nothing of a later request */
#ifndef DROP
#define DROP 0
#endif
#define kept(rule) (DROP != rule)

/* The rules of work.pml, which spread.pml drops. */
#define BY_LOAD 20
#define REQUESTED_ONCE 21
#define ONLY_IF_IT_LOWERS 22
#define PROMISES_FIRST 23
#define NO_PROMISE_TO_THE_DEAD 24
#define NEXT_TAKER 25
#define NEXT_SOURCE 26
#define HAND_STAYS 27

mtype = { JOIN, POLL, RENEW, RELEASE, LEAVE,           /* requests */
          JOINED, OWNS, REQUESTED, NO_NEWS, GONE,            /* replies: its number; news of a shard; no news; no such member */
          OUT, JOINING, IN, LEAVING,                   /* states of a process */
          IDLE, RUNS, DRAINS };                        /* states of a function; the context of one that drains has ended */

/* The processes. */
typedef Process {
  mtype state = OUT;
  byte number = I;          /* as a member; NONE if it is no member */
  byte until;               /* what is left until its contexts end */
  byte lost = I;            /* the number that it had before, to be named in its next join */
  bit attempt;              /* of joining, so that a join is not taken for another one */
  bit stopped; bit did;     /* PROMPT: it makes no steps; it has done its duty in this tick */
}
Process p[P];

/* A function of a shard in a process. */
typedef Function {
  mtype state = IDLE;
  byte number = I;          /* it runs under this one */
  byte token;
  byte greatest;            /* the greatest token that the process has read under its present number */
  bit slow;                 /* PROMPT: it does not return in this tick */
  bit hung;                 /* PROMPT: it never returns */
}
Function f[P * N];
#define F(q, s) f[(q) * N + (s)]

/* The server: rows and members are in work.pml. */
byte life[I];
bit polled[I];
byte recent[I];              /* PROMPT */
byte joined_by[I] = P;      /* the process and the attempt that a number was given to, so that a join can be repeated */
bit joined_as[I];
byte token[N];              /* of the last grant */
byte limit_left[N];              /* DRAIN: its owner has heard that it was asked: what is left of the limit, and one */
byte amnesty; byte pause; byte silence;  /* PROMPT */
bit exists;

byte faults; byte hangs; byte moves; byte losses; byte jumps; byte drifts; byte changes;
#define LONG 15
byte calm;                  /* ticks since the last fault or change */

/* The wire. */
mtype kind[M];
byte whose[M];              /* the process that sends or reads it */
byte number[M];             /* JOIN: of its lost lease */
byte shard[M];
byte rank[M];               /* a token; JOIN and JOINED: the attempt; LEAVE: it is done */
byte left[M];
bit late[M];                /* PROMPT: it is not delivered in this tick */

hidden mtype got; hidden byte me; hidden byte n; hidden byte s; hidden byte t; hidden byte l; hidden byte q; hidden byte y; hidden byte z;
hidden short used;

#define even_part N
#define weight(m) 1
#define ended(m) (life[m] == 0 && (!PROMPT || amnesty == 0 || !kept(FORGIVE)))
#define takes(m) (status[m] == ALIVE && (polled[m] || !kept(POLL_FIRST)) && (!PROMPT || recent[m] > 0))
#define may_grant (!PROMPT || pause == 0 || !kept(WAIT_AT_FIRST))
#define on_over(m) recent[m] = 0
#define has_room(m) 1
#define banned(r, m) 0
#define waits(r) 0
#define has_begun(m) polled[m]
#define on_fit_none(r) skip
#define on_gone(m) life[m] = 0; polled[m] = 0; recent[m] = 0; joined_by[m] = P; joined_as[m] = 0
#define on_grant(r, m) granted(r, m)
#define requested_a_shard reached(1)
#define turned_over_promise reached(2)

/* PROMPT: drains that are over their limit, before any other work of a script. */
#define end_drains for (c : 0 .. N-1) { if :: DRAIN && PROMPT && limit_left[c] == 1 && budget > 0 -> end_drain(c); budget-- :: else fi }

#include "work.pml"

#define request(what) (what == JOIN || what == POLL || what == RENEW || what == RELEASE || what == LEAVE)
#define is_in(w) (p[w].state == IN || p[w].state == LEAVING)
/* The context of a function is alive. */
#define believes(w, r) (F(w, r).state == RUNS && p[w].until > 0)
#define lease_lost(w, r) (F(w, r).number != p[w].number || p[w].until == 0)
/* What a poll says that its sender has heard: the token of the shard that it was asked for. The context has ended by then. */
#define knows_request(w, r) (DRAIN && F(w, r).state == DRAINS && F(w, r).number == p[w].number -> F(w, r).token : 0)
/* Its drain was ended by force. */
#define forced(w, r) (DRAIN && F(w, r).state == DRAINS && (owner[r] != F(w, r).number || token[r] != F(w, r).token))

/* Messages that their reader would ignore are not kept. */
#define known(m) ((m) != NONE && status[m] != ABSENT)
#define of_use(i) ( \
  (kind[i] == JOIN) || \
  ((kind[i] == POLL || kind[i] == RENEW) && (known(number[i]) || (is_in(whose[i]) && p[whose[i]].number == number[i]))) || \
  (kind[i] == RELEASE && ((owner[shard[i]] == number[i] && token[shard[i]] == rank[i]) || !kept(TOKEN) || !kept(FRESH_NUMBER))) || \
  (kind[i] == LEAVE && known(number[i])) || \
  (kind[i] == JOINED && p[whose[i]].state == JOINING && p[whose[i]].attempt == rank[i]) || \
  ((kind[i] == OWNS || kind[i] == REQUESTED) && is_in(whose[i]) && p[whose[i]].number == number[i]) || \
  (kind[i] == NO_NEWS && is_in(whose[i]) && p[whose[i]].number == number[i] && (left[i] > p[whose[i]].until || DROP)) || \
  (kind[i] == GONE && is_in(whose[i]) && p[whose[i]].number == number[i]))

#define order(i) (kind[i] * 4096 + whose[i] * 1024 + number[i] * 128 + shard[i] * 32 + rank[i] * 8 + left[i] * 2 + late[i])
#define swap(list, i) x = list[i]; list[i] = list[i-1]; list[i-1] = x
#define swap_messages(i) swap(kind, i); swap(whose, i); swap(number, i); swap(shard, i); swap(rank, i); swap(left, i); swap(late, i)
#define clear(i) kind[i] = 0; whose[i] = 0; number[i] = 0; shard[i] = 0; rank[i] = 0; left[i] = 0; late[i] = 0

/* The tokens of shard r that exist, a bit each. */
#define has_token(i) (kind[i] == RELEASE || kind[i] == POLL || kind[i] == OWNS || kind[i] == REQUESTED)
inline tokens_of(r) {
  used = BIT(token[r]);
  for (a : 0 .. P-1) { used = used | BIT(F(a, r).greatest) | BIT(F(a, r).token) }
  for (a : 0 .. M-1) { if :: has_token(a) && shard[a] == r -> used = used | BIT(rank[a]) :: else fi }
}
#define close_gap(value) if :: (value) > y -> value = (value) - 1 :: else fi
inline renumber(r) {
  do
  :: tokens_of(r); used = used | 1;
     y = 1;
     do :: used & BIT(y) -> y++ :: else -> break od;
     if
     :: used < BIT(y) -> break                   /* no gap */
     :: else ->
        close_gap(token[r]);
        for (a : 0 .. P-1) { close_gap(F(a, r).greatest); close_gap(F(a, r).token) }
        for (a : 0 .. M-1) { if :: has_token(a) && shard[a] == r -> close_gap(rank[a]) :: else fi }
     fi
  od;
  y = 0
}

/* What makes no difference any more is forgotten, so that states are few. */
#define reads_news(i) ((kind[i] == OWNS || kind[i] == REQUESTED) && whose[i] == x)
inline forget() {
  for (b : 0 .. I-1) {
    if :: status[b] == OVER -> life[b] = 0; recent[b] = 0; polled[b] = 0 :: else fi;
    if :: status[b] == LEAVES -> recent[b] = 0; polled[b] = 0 :: else fi;
    x = joined_by[b];
    if
    :: x < P ->
       y = (p[x].state == JOINING && p[x].attempt == joined_as[b]);
       for (a : 0 .. M-1) { if :: kind[a] == JOIN && whose[a] == x && rank[a] == joined_as[b] -> y = 1 :: else fi };
       if :: !y -> joined_by[b] = P; joined_as[b] = 0 :: else fi
    :: else
    fi
  }
  for (x : 0 .. P-1) {
    if :: p[x].lost != NONE && !known(p[x].lost) -> p[x].lost = NONE :: else fi;
    for (b : 0 .. N-1) {
      y = (!kept(GROWING_TOKENS) || F(x, b).greatest == 0 || (owner[b] == p[x].number && token[b] == F(x, b).greatest));
      for (a : 0 .. M-1) { if :: reads_news(a) && shard[a] == b -> y = 1 :: else fi };
      if :: !y -> F(x, b).greatest = 0 :: else fi
    }
  }
  for (a : 0 .. M-1) {
    if :: kind[a] == JOIN && number[a] != NONE && !known(number[a]) -> number[a] = NONE :: else fi;
    if :: kind[a] == POLL && rank[a] > 0 && kept(KNOWN_BY_TOKEN) && rank[a] != token[shard[a]] -> rank[a] = 0 :: else fi
  }
  for (a : 0 .. N-1) { if :: !requested[a] -> limit_left[a] = 0 :: else fi }
}

inline tidy() {
  for (a : 0 .. N-1) { if :: owner[a] == NONE && kept(GROWING_TOKENS) && kept(TOKEN) -> token[a] = 0 :: else fi }
  for (a : 0 .. M-1) { if :: kind[a] != 0 && !of_use(a) -> clear(a) :: else fi }
  forget();
  for (z : 0 .. N-1) { renumber(z) }
  a = 1;
  do
  :: a < M && order(a) > order(a-1) -> swap_messages(a); a = 1
  :: a < M && order(a) <= order(a-1) -> a++
  :: a >= M -> break
  od;
  a = 0
}

#define room (kind[M-1-PROMPT] == 0)
inline put(what, w, m, r, v, c) {
  e = 0;
  do :: e < M && kind[e] != 0 -> e++ :: else -> break od;
  if
  :: e < M -> kind[e] = what; whose[e] = w; number[e] = m; shard[e] = r; rank[e] = v; left[e] = c
  :: else -> assert(!PROMPT)
  fi
}
inline peek(k) { got = kind[k]; me = whose[k]; n = number[k]; s = shard[k]; t = rank[k]; l = left[k] }
/* A late message disturbs until it arrives. */
inline take(k) { peek(k); if :: late[k] -> calm = 0 :: else fi; clear(k) }

#define fault if :: PROMPT -> faults++; calm = 0 :: else fi
#define may_fail (PROMPT -> faults < FAULTS : CHURN)

/* ---- The server ---- */

inline granted(r, m) {
  promise("broken: a member that never polled owns nothing\n", polled[m]);
  if
  :: kept(GROWING_TOKENS) ->
     tokens_of(r); token[r] = 1;
     do :: used >= BIT(token[r]) -> token[r]++ :: else -> break od;
     used = 0
  :: else -> token[r]++
  fi
}

/* A number that nothing has any more. */
inline find_number() {
  n = 0;
  do
  :: n < I ->
     y = (status[n] == ABSENT);
     for (a : 0 .. P-1) { if :: kept(FRESH_NUMBER) && (p[a].number == n || p[a].lost == n) -> y = 0 :: else fi };
     for (a : 0 .. P*N-1) { if :: kept(FRESH_NUMBER) && f[a].state != IDLE && f[a].number == n -> y = 0 :: else fi };
     for (a : 0 .. M-1) { if :: kept(FRESH_NUMBER) && kind[a] != 0 && number[a] == n -> y = 0 :: else fi };
     for (a : 0 .. N-1) { if :: owner[a] == n || promised[a] == n -> y = 0 :: else fi };
     if :: y -> break :: else -> n++ fi
  :: else -> break
  od;
  y = 0
}

/* A script runs. If none ran for a while there may be members that could not be heard, besides the caller. */
inline script(caller) {
  if
  :: PROMPT ->
     y = 0;
     for (a : 0 .. I-1) { if :: status[a] != ABSENT && (a != caller || !kept(FORGIVE_ONE)) -> y++ :: else fi };
     if :: silence >= SILENCE && y > !kept(FORGIVE_ONE) -> reached(3); amnesty = AMNESTY :: else fi;
     silence = 0
  :: else
  fi
}

/* A leave, and a join that names the lost number. */
inline leaves(m) {
  if :: status[m] == ALIVE -> status[m] = LEAVES :: else fi
}
/* It is done: what it was granted, and never read, is free. */
inline ends_grants(m) {
  for (c : 0 .. N-1) {
    if
    :: owner[c] == m -> reached(21); if :: !requested[c] && load[m] > 0 -> load[m]-- :: else fi; hand_over(c)
    :: else
    fi
  }
}
inline remove_empty_leavers() {
  for (b : 0 .. I-1) {
    y = (status[b] == LEAVES);
    for (a : 0 .. N-1) { if :: owner[a] == b || promised[a] == b -> y = 0 :: else fi };
    if :: y -> status[b] = ABSENT; load[b] = 0; on_gone(b) :: else fi
  }
}

inline join(w, lost_one, attempt_of) {
  if :: !exists -> exists = 1; pause = (PROMPT -> PAUSE : 0) :: else fi;
  script(NONE);
  q = lost_one; n = NONE;
  for (a : 0 .. I-1) { if :: status[a] != ABSENT && joined_by[a] == w && joined_as[a] == attempt_of -> n = a :: else fi };
  if
  :: n != NONE -> reached(4)                                            /* a join is repeated */
  :: else ->
     find_number();
     if
     :: n < I ->
        status[n] = ALIVE; life[n] = LIFE; polled[n] = 0; recent[n] = (kept(POLL_FIRST) -> 0 : RECENT * PROMPT); load[n] = 0;
        joined_by[n] = w; joined_as[n] = attempt_of;
        trace("    process %d is member %d\n", w, n, 0);
        if :: q != NONE && q != n -> reached(5); leaves(q) :: else fi;            /* a lost member joins anew */
        work(n)
     :: else
     fi
  fi;
  if :: n < I -> put(JOINED, w, n, 0, attempt_of, l) :: else fi
}

/* A drain has taken longer than its limit: its shard is granted, although its function has not returned. */
inline end_drain(r) {
  for (a : 0 .. P-1) {
    promise("broken: a context has ended before its drain is ended by force\n", !believes(a, r) || F(a, r).token != token[r])
  }
  trace("    the drain of shard %d, token %d, is ended by force\n", r, token[r], 0); reached(18);
  limit_left[r] = 0; hand_over(r)
}
#define begin_limit(r) if :: limit_left[r] == 0 && kept(FORCE) -> limit_left[r] = 1 + (PROMPT -> DRAIN : 0) :: else fi

/* News of shard r for member m: what its process does not know yet. A prompt run finds the first shard with news. */
#define is_news(w, m, r) (owner[r] == m && (token[r] > F(w, r).greatest || F(w, r).state == IDLE || \
  (requested[r] -> F(w, r).state == RUNS : F(w, r).token != token[r])))
inline poll(w, m, r, c) {
  if
  :: known(m) && status[m] != OVER ->
     script(m);
     life[m] = (kept(NEVER_SHORTEN) -> LIFE : c + MARGIN);
     polled[m] = 1; recent[m] = RECENT * PROMPT;
     count(m);
     if
     :: t > 0 && owner[r] == m && requested[r] && (token[r] == t || !kept(KNOWN_BY_TOKEN)) -> begin_limit(r)
     :: else
     fi;
     z = m; y = r; work(z);
     if
     :: PROMPT ->
        y = N;
        for (a : 0 .. N-1) { if :: is_news(w, m, a) -> y = a :: else fi };
     :: else -> y = r
     fi;
     if
     :: y < N && owner[y] == m && !requested[y] -> put(OWNS, w, m, y, token[y], c)
     :: y < N && owner[y] == m && requested[y] ->
        put(REQUESTED, w, m, y, token[y], c);
        if :: DRAIN && !kept(FROM_KNOWING) -> begin_limit(y) :: else fi
     :: else -> put(NO_NEWS, w, m, 0, 0, c)
     fi
  :: else -> reached(6); put(GONE, w, m, 0, 0, 0)                         /* a member learns that it is over */
  fi
}

/* It has the key of the ends alone, in which a member that is over is not any more. */
inline renew(w, m, c) {
  if
  :: known(m) && status[m] != OVER -> life[m] = (kept(NEVER_SHORTEN) -> LIFE : c + MARGIN); put(NO_NEWS, w, m, 0, 0, c)
  :: else -> put(GONE, w, m, 0, 0, 0)
  fi
}

inline release(m, r, v) {
  if
  :: known(m) && status[m] != OVER ->
     script(NONE);
     if
     :: owner[r] == m && (token[r] == v || !kept(TOKEN)) ->
        if :: requested[r] -> reached(7) :: else -> reached(8); load[m]-- fi;  /* it was asked for; it was not */
        hand_over(r); remove_empty_leavers()
     :: else -> skip
     fi;
     work(NONE)
  :: else
  fi
}

/* ---- The processes ---- */

/* Its lease is over, for the process. Its functions drain, and are released under the number that they had. */
inline lose(w) {
  trace("process %d has lost number %d\n", w, p[w].number, 0);
  p[w].lost = p[w].number; p[w].number = NONE; p[w].until = 0;
  for (a : 0 .. N-1) {
    if :: F(w, a).state == RUNS -> F(w, a).state = DRAINS :: else fi;
    F(w, a).greatest = 0;
    if :: F(w, a).state == IDLE -> F(w, a).token = 0; F(w, a).number = NONE :: else fi
  }
  if
  :: p[w].state == LEAVING -> p[w].state = OUT; p[w].lost = NONE; p[w].did = 0
  :: else -> p[w].state = JOINING; p[w].did = 0; next_attempt(w)
  fi
}

/* An attempt that no message and no member has any more. If both are in use it is 2, and the process stays OUT for a while. */
inline free_attempt(w) {
  y = 2;
  for (b : 0 .. 1) {
    x = 1;
    for (a : 0 .. M-1) { if :: (kind[a] == JOIN || kind[a] == JOINED) && whose[a] == w && rank[a] == b -> x = 0 :: else fi };
    for (a : 0 .. I-1) { if :: status[a] != ABSENT && joined_by[a] == w && joined_as[a] == b -> x = 0 :: else fi };
    if :: x -> y = b :: else fi
  }
}
inline next_attempt(w) {
  free_attempt(w);
  if :: y < 2 -> p[w].attempt = y :: else -> p[w].state = OUT; p[w].lost = NONE fi
}

inline begin(w, r, v, m) {
  for (q : 0 .. P-1) {
    if
    :: F(q, r).state == IDLE -> skip
    :: q == w && F(q, r).state != IDLE -> promise("broken: one function of a shard in a process\n", F(q, r).state == IDLE)
    :: q != w && F(q, r).state != IDLE ->
       promise("broken: one function of a shard, unless a lease was lost or a drain was ended by force\n", \
         lease_lost(q, r) || forced(q, r));
       if :: lease_lost(q, r) -> reached(9) :: else -> reached(19) fi     /* beside one that lost its lease, or was ended by force */
    fi;
    promise("broken: tokens rise\n", F(q, r).state == IDLE || F(q, r).token < v)
  }
  trace("    process %d runs shard %d, token %d\n", w, r, v);
  F(w, r).state = RUNS; F(w, r).number = m; F(w, r).token = v; F(w, r).greatest = v
}

inline send_release(w, m, r, v) {
  trace("process %d releases shard %d, token %d\n", w, r, v);
  put(RELEASE, w, m, r, v, 0)
}

inline stop(w, r) {
  F(w, r).state = DRAINS;
  if :: !kept(AFTER_RETURN) -> send_release(w, F(w, r).number, r, F(w, r).token) :: else fi
}

/* A shard is read that is this member's. */
inline reads_owns(w, m, r, v) {
  if
  :: v < F(w, r).greatest || (v == F(w, r).greatest && F(w, r).state != IDLE && F(w, r).token == v) ->
     skip                                                                 /* it is late, or known */
  :: v == F(w, r).greatest && !(F(w, r).state != IDLE && F(w, r).token == v) ->
     if
     :: kept(LATE_IS_LATE) -> reached(10); send_release(w, m, r, v)       /* its release has not arrived, or this is late */
     :: !kept(LATE_IS_LATE) && F(w, r).state == IDLE -> begin(w, r, v, m)
     :: else
     fi
  :: v > F(w, r).greatest ->
     F(w, r).greatest = v;
     if
     :: p[w].state == LEAVING -> reached(11); send_release(w, m, r, v)    /* a leaver is granted a shard */
     :: p[w].state == IN && F(w, r).state != IDLE && kept(DECLINE) ->
        reached(12); send_release(w, m, r, v)                             /* its last function still runs here */
     :: p[w].state == IN && (F(w, r).state == IDLE || !kept(DECLINE)) -> begin(w, r, v, m)
     fi
  fi
}

inline reads_requested(w, m, r, v) {
  if
  :: v < F(w, r).greatest || (F(w, r).state == DRAINS && F(w, r).token == v) -> skip
  :: F(w, r).state == RUNS && F(w, r).token == v ->
     stop(w, r)
  :: else -> reached(13); F(w, r).greatest = v; send_release(w, m, r, v)  /* asked before it began */
  fi
}

inline read(w) {
  if
  :: got == JOINED && p[w].state == JOINING && p[w].attempt == t ->
     p[w].lost = NONE;
     if :: l > 0 -> p[w].number = n; p[w].state = IN; p[w].until = l; p[w].did = 0; p[w].attempt = 0 :: else -> next_attempt(w) fi
  :: got != JOINED && is_in(w) && p[w].number == n ->
     if
     :: got == GONE || (p[w].until == 0) -> lose(w)
     :: else ->
        y = (kept(FROM_SENDING) -> l : LIFE - MARGIN);
        p[w].until = MAX(p[w].until, y);
        if
        :: got == OWNS && p[w].until > 0 -> p[w].did = 0; reads_owns(w, n, s, t)
        :: got == REQUESTED && p[w].until > 0 -> p[w].did = 0; reads_requested(w, n, s, t)
        :: else
        fi
     fi
  :: else
  fi;
  tidy(); check()
}

inline check() {
  for (z : 0 .. N-1) {
    x = 0;
    for (a : 0 .. P-1) {
      promise("broken: a live context is that of the owner at the server, unless that came back empty\n", \
        !believes(a, z) || losses > 0 || (owner[z] == F(a, z).number && token[z] == F(a, z).token));
      if :: believes(a, z) -> x++ :: else fi
    }
    promise("broken: one owner\n", x <= 1)
  }
  a = 0
}

inline ends_functions(w) {
  for (a : 0 .. N-1) {
    F(w, a).state = IDLE; F(w, a).number = NONE; F(w, a).token = 0; F(w, a).greatest = 0; F(w, a).slow = 0; F(w, a).hung = 0
  }
}
inline starts_joining(w) {
  free_attempt(w);
  if :: y < 2 -> p[w].attempt = y; p[w].state = JOINING; p[w].did = 0 :: else fi
}

#define steps(w) (!p[w].stopped)
/* Contexts end this much before the lease. */
#define LEASE (kept(CONTEXT_FIRST) -> LIFE - MARGIN : LIFE)
#define runs_any(w) (F(w, 0).state != IDLE || F(w, N-1).state != IDLE || (N > 2 && F(w, 1).state != IDLE))

proctype Runs(byte w) {
  do
  :: d_step { !PROMPT && p[w].state == OUT -> starts_joining(w); tidy() }
  :: d_step { PROMPT && p[w].state == OUT && !runs_any(w) && changes < CHANGES -> changes++; calm = 0;
       trace("process %d comes back\n", w, 0, 0); starts_joining(w); tidy() }
  :: d_step { p[w].state == JOINING && room && !p[w].did && steps(w) -> p[w].did = PROMPT;
       trace("process %d joins, lost %d\n", w, p[w].lost, 0); put(JOIN, w, p[w].lost, 0, p[w].attempt, LEASE); tidy() }
  :: d_step { PROMPT && is_in(w) && p[w].until > 0 && room && !p[w].did && steps(w) -> p[w].did = 1;
       trace("process %d polls, %d left\n", w, p[w].until, 0); y = knows_request(w, 0); x = (DRAIN -> 0 : N); put(POLL, w, p[w].number, x, y, LEASE);
       if :: HANGS && p[w].state == LEAVING && status[p[w].number] == ALIVE -> put(LEAVE, w, p[w].number, 0, 0, 0) :: else fi;  /* again */
       tidy() }
  :: d_step { moves < MOVES && is_in(w) && status[p[w].number] == ALIVE && owner[0] != NONE && owner[0] != p[w].number && promised[0] != p[w].number ->
       moves++; if :: PROMPT -> calm = 0 :: else fi; script(NONE); reached(20);
       trace("shard 0 is moved to process %d by hand\n", w, 0, 0); q = p[w].number; move(0, q); work(NONE); tidy() }
  :: d_step { RENEWS && is_in(w) && p[w].until > 0 && room && (!PROMPT || p[w].did) ->
       trace("process %d renews\n", w, 0, 0); put(RENEW, w, p[w].number, 0, 0, LEASE); tidy() }
  :: d_step { is_in(w) && p[w].until == 0 && steps(w) -> lose(w); tidy() }
  :: d_step { p[w].state == IN && p[w].until > 0 && steps(w) && room && (PROMPT -> changes < CHANGES : CHURN) ->
       trace("process %d leaves\n", w, 0, 0);
       if :: PROMPT -> changes++; calm = 0 :: else fi;
       p[w].state = LEAVING; put(LEAVE, w, p[w].number, 0, !kept(WHEN_STOPPED), 0);
       for (a : 0 .. N-1) { if :: F(w, a).state == RUNS -> stop(w, a) :: else fi };
       tidy() }
  :: d_step { p[w].state != OUT && may_fail -> fault; trace("process %d dies\n", w, 0, 0);
       p[w].state = OUT; p[w].number = NONE; p[w].until = 0; p[w].lost = NONE; p[w].attempt = 0; p[w].stopped = 0; p[w].did = 0;
       ends_functions(w); tidy() }
  :: d_step { PROMPT && is_in(w) && !p[w].stopped && may_fail -> fault; p[w].stopped = 1; trace("process %d stops\n", w, 0, 0) }
  :: d_step { PROMPT && p[w].stopped -> p[w].stopped = 0; p[w].did = 0; calm = 0; trace("process %d resumes\n", w, 0, 0) }
  :: d_step { p[w].state == LEAVING && !runs_any(w) && (!PROMPT || p[w].did) && steps(w) && room -> trace("process %d has left\n", w, 0, 0);
       put(LEAVE, w, p[w].number, 0, 1, 0); p[w].state = OUT; p[w].number = NONE; p[w].until = 0; ends_functions(w); p[w].did = 0; tidy() }
  od
}

/* The function of shard r in process w, and the polls that ask for news of it. */
proctype Works(byte w; byte r) {
  do
  :: d_step { !PROMPT && is_in(w) && p[w].until > 0 && room -> trace("process %d polls for shard %d\n", w, r, 0);
       y = knows_request(w, r); put(POLL, w, p[w].number, r, y, LEASE); tidy() }
  :: d_step { F(w, r).state == DRAINS && !F(w, r).hung && room && steps(w) ->               /* it returns */
       trace("process %d: the function of shard %d returns\n", w, r, 0);
       F(w, r).state = IDLE; F(w, r).slow = 0;
       send_release(w, F(w, r).number, r, F(w, r).token);
       F(w, r).number = NONE; F(w, r).token = 0; tidy() }
  :: d_step { ELSEWHERE && !PROMPT && F(w, r).state == RUNS && p[w].until > 0 && room -> reached(14);
       trace("process %d: the function of shard %d wants it elsewhere\n", w, r, 0);
       F(w, r).state = IDLE; send_release(w, F(w, r).number, r, F(w, r).token);
       F(w, r).number = NONE; F(w, r).token = 0; tidy() }
  :: d_step { PROMPT && F(w, r).state == DRAINS && !F(w, r).slow && may_fail -> fault; F(w, r).slow = 1;
       trace("process %d: the function of shard %d hangs\n", w, r, 0) }
  :: d_step { PROMPT && hangs < HANGS && F(w, r).state == DRAINS && !F(w, r).hung -> hangs++; calm = 0; F(w, r).hung = 1;
       trace("process %d: the function of shard %d never returns\n", w, r, 0) }
  od
}

#define arrives trace("  %e of process %d, member %d, arrives\n", got, me, n)
proctype Wire(byte k) {
  do
  :: d_step { kind[k] == JOIN -> take(k); arrives; join(me, n, t); tidy() }
  :: d_step { kind[k] == POLL -> take(k); arrives; poll(me, n, s, l); tidy() }
  :: d_step { kind[k] == RENEW -> take(k); arrives; renew(me, n, l); tidy() }
  :: d_step { kind[k] == RELEASE -> take(k); arrives; release(n, s, t); tidy() }
  :: d_step { kind[k] == LEAVE -> take(k); arrives; script(NONE);
       if :: known(n) && status[n] != OVER -> leaves(n); if :: t -> ends_grants(n) :: else fi; remove_empty_leavers(); work(NONE) :: else fi; tidy() }
  :: d_step { kind[k] != 0 && !request(kind[k]) && !p[whose[k]].stopped -> take(k); arrives; read(me) }
  :: d_step { kind[k] != 0 && may_fail -> take(k); trace("  %e of process %d, member %d, is lost\n", got, me, n); fault; tidy() }
  :: d_step { (kind[k] == JOIN || kind[k] == RELEASE || kind[k] == LEAVE) && room && (PROMPT -> faults < FAULTS : DOUBLE) ->
       peek(k); fault; trace("  %e of process %d, member %d, is doubled\n", got, me, n); put(got, me, n, s, t, l); tidy() }
  :: d_step { PROMPT && kind[k] != 0 && !late[k] && faults < FAULTS -> late[k] = 1; fault;
       trace("  %e of process %d, member %d, is late\n", kind[k], whose[k], number[k]); tidy() }
  od
}

proctype World() {
  do
  :: d_step { !PROMPT && limit_left[0] > 0 -> end_drain(0); work(NONE); tidy() }
  :: d_step { !PROMPT && N > 1 && limit_left[N-1] > 0 -> end_drain(N-1); work(NONE); tidy() }
  :: d_step { losses < LOSE && exists -> losses++; calm = 0; reached(15); trace("the server comes back empty\n", 0, 0, 0);
       exists = 0; pause = 0; amnesty = 0; silence = 0;
       for (b : 0 .. I-1) { status[b] = ABSENT; load[b] = 0; on_gone(b) }
       for (b : 0 .. N-1) { owner[b] = NONE; requested[b] = 0; promised[b] = NONE; token[b] = 0; limit_left[b] = 0 }
       tidy() }
  :: d_step { jumps < JUMP && exists -> jumps++; calm = 0; reached(16); trace("the server's clock jumps over all leases\n", 0, 0, 0);
       silence = SILENCE; pause = 0; amnesty = 0;
       for (b : 0 .. I-1) { life[b] = 0; recent[b] = 0 }
       tidy() }
  :: d_step { drifts < DRIFT && exists -> drifts++; calm = 0; reached(17); trace("the server's clock is set forward by a tick\n", 0, 0, 0);
       lower(pause); lower(amnesty);
       for (b : 0 .. I-1) { lower(life[b]); lower(recent[b]) }
       tidy() }
  od
}

/* PROMPT: what must be done before the next tick. */
#define on_duty(w) (p[w].state == OUT || p[w].stopped || (p[w].did && (p[w].state == JOINING || p[w].until > 0)))
#define may_last(w, r) (F(w, r).state != DRAINS || F(w, r).slow || F(w, r).hung || p[w].stopped)

#define may_work(w) (p[w].state == IN && !p[w].stopped)
inline count_running(w, sum) {
  sum = 0;
  for (a : 0 .. N-1) { if :: believes(w, a) -> sum++ :: else fi }
}

proctype Clock() {
  do
  :: d_step { !PROMPT || (on_duty(0) && on_duty(1) && on_duty(P-1)) ->
       y = 0;
       for (b : 0 .. M-1) { if :: kind[b] != 0 && !late[b] && !(p[whose[b]].stopped && !request(kind[b])) -> y++ :: else fi };
       for (b : 0 .. P-1) { for (c : 0 .. N-1) { if :: !may_last(b, c) -> y++ :: else fi } };
       if
       :: PROMPT && y > 0                    /* something is on its way, or has to return: no tick */
       :: else ->
          if
          :: PROMPT ->
             for (b : 0 .. N-1) {
               x = 0; y = 0;
               for (a : 0 .. P-1) {
                 if :: may_work(a) && !F(a, b).hung -> y++ :: else fi;
                 if :: believes(a, b) -> x = 1 :: else fi
               }
               promise("broken: each shard is owned in the end\n", calm < STALL || x || y == 0)
             }
             for (b : 0 .. P-1) {
               count_running(b, x);
               for (c : 0 .. P-1) {
                 count_running(c, z);
                 promise("broken: the shards are spread evenly in the end\n", calm < EVEN || !may_work(b) || !may_work(c) || x <= z + 1)
               }
             }
             for (a : 0 .. P-1) { if :: p[a].stopped -> calm = 0 :: else fi };
             calm = (calm < LONG -> calm + 1 : LONG);
             silence = (silence < SILENCE -> silence + 1 : SILENCE)
          :: else
          fi;
          lower(amnesty); lower(pause);
          for (b : 0 .. I-1) { lower(life[b]); lower(recent[b]) };
          for (b : 0 .. N-1) { if :: PROMPT && limit_left[b] > 1 -> limit_left[b]-- :: else fi };
          for (b : 0 .. P-1) { lower(p[b].until); p[b].did = 0 };
          for (b : 0 .. P*N-1) { f[b].slow = 0 };
          for (b : 0 .. M-1) { lower(left[b]) };
          tidy(); trace("tick: lives %d, %d, owner of shard 0 %d\n", life[0], life[1], owner[0])
       fi }
  od
}

init {
  atomic {
    if :: PROMPT -> p[0].state = JOINING; p[1].state = JOINING; p[P-1].state = JOINING :: else fi;
    for (b : 0 .. P-1) { run Runs(b) }
    for (b : 0 .. P-1) { for (c : 0 .. N-1) { run Works(b, c) } }
    for (b : 0 .. M-1) { run Wire(b) }
    run World(); run Clock()
  }
}
