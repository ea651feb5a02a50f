// SPDX-License-Identifier: Apache-2.0

/* The value of a leader, as election/value.go describes it: a key beside the holder key. The file runs beside this one lists the
 * checks; `make model` runs them.
 *
 * One election, one server, some terms that follow each other, one reader. The model chooses the leader: a hold gets the lock when it is
 * free, and loses it at any time, by a release, by its end, or by force. A leader may not know of that, and writes. Any message
 * may be late, lost, overtaken or delivered twice. A reader reads the value first and then the hold.
 *
 * Each rule can be dropped, -DDROP=<rule>, and then a run has to find what goes wrong without it.
 */

#ifndef T
#define T 3           /* terms */
#endif
#ifndef N
#define N 3           /* values that a term sets */
#endif
#ifndef M
#define M 3           /* messages in flight at a time */
#endif
#ifndef LOSE
#define LOSE 0        /* how often the key of the value is lost */
#endif

/* The rules that can be dropped. */
#define COMPARE 1     /* a write compares the holder key */
#define NUMBER 2      /* a write overwrites no later value of its own term */
#define MATCH 3       /* a reader uses the value only with the hold that wrote it */
#define OWN 4         /* a term that is over removes its own value only */
#ifndef DROP
#define DROP 0
#endif
#define kept(rule) (DROP != rule)

#include "common.pml"

#define PUT 1
#define CLEAR 2

/* The messages in flight: kind, term, number; kind 0: no message. */
byte kind[M]; byte whose[M]; byte number[M];

byte leads;           /* the term whose hold has the lock, or 0 */
byte begun;           /* terms so far */
byte writer;          /* the term whose value is at the server, or 0 */
byte value;           /* its number */
byte sent[T+1];       /* the greatest number that a term has sent */
byte confirmed[T+1];  /* the greatest number that a term knows to be written */
byte losses;

/* The reader: what it has read of the value, and what was confirmed of each term before that. */
bool reads; byte read_writer; byte read_value; byte before;

hidden byte i;

inline send(what, term, n) {
  i = 0;
  do :: i < M && kind[i] != 0 -> i++ :: else -> break od;
  if
  :: i < M -> kind[i] = what; whose[i] = term; number[i] = n; trace("  %d of term %d, number %d, is sent\n", what, term, n)
  :: else
  fi
}

/* The script election/put, at the server. */
inline executes_put(term, n) {
  if
  :: kept(COMPARE) && leads != term -> reached(1)                    /* a stale leader writes */
  :: (!kept(COMPARE) || leads == term) && kept(NUMBER) && writer == term && value >= n ->
     reached(2);                                                    /* a late or repeated write */
     if :: confirmed[term] < n -> confirmed[term] = n :: else fi
  :: (!kept(COMPARE) || leads == term) && !(kept(NUMBER) && writer == term && value >= n) ->
     promise("broken: a stale leader writes nothing\n", leads == term);
     writer = term; value = n;
     if
     :: confirmed[term] < n -> confirmed[term] = n                  /* its reply arrives */
     :: reached(3)                                                   /* or is lost */
     fi
  fi
}

/* The script election/clear, at the server. */
inline executes_clear(term) {
  if
  :: writer == term || !kept(OWN) -> writer = 0; value = 0
  :: else -> reached(4)                                             /* another term's value is spared */
  fi
}

inline arrives(k) {
  trace("  %d of term %d, number %d, arrives\n", kind[k], whose[k], number[k]);
  if
  :: kind[k] == PUT -> executes_put(whose[k], number[k])
  :: kind[k] == CLEAR -> executes_clear(whose[k])
  fi;
  if
  :: kind[k] = 0; whose[k] = 0; number[k] = 0
  :: reached(5)                                                     /* and will arrive again */
  fi
}

/* The value of the term that leads is there, and is not older than what it knows to be written. */
inline check() {
  promise("broken: the last value stays\n", leads == 0 || confirmed[leads] == 0 || losses > 0 || writer == leads && value >= confirmed[leads])
}

/* A reader that has both replies shows the value, or no value. */
inline shows(from, by, v) {
  if
  :: kept(MATCH) && from != by -> reached(6)                          /* the value of another term is not shown */
  :: (!kept(MATCH) || from == by) && from != 0 && v != 0 ->
     promise("broken: a value is shown for its own term\n", from == by);
     promise("broken: a value that was confirmed is shown\n", before <= v || losses > 0)
  :: else
  fi
}

/* Chooses a term that has begun, and a message. */
inline some_term() { w = 1; do :: w < begun -> w++ :: break od }
inline some_message() { k = 0; do :: k < M-1 -> k++ :: break od }

init {
  byte k; byte w;
  do
  :: atomic { leads == 0 && begun < T -> begun++; leads = begun; trace("term %d begins\n", begun, 0, 0) }
  :: atomic { leads != 0 -> trace("term %d ends\n", leads, 0, 0); leads = 0 }
  :: atomic { begun > 0 -> some_term(); if :: sent[w] < N -> sent[w]++; send(PUT, w, sent[w]) :: else fi; w = 0 }
  :: atomic { begun > 0 -> some_term(); if :: sent[w] > 0 -> send(PUT, w, sent[w]) :: else fi; w = 0 }      /* once a lease */
  :: atomic { begun > 0 -> some_term(); if :: leads != w -> send(CLEAR, w, 0) :: else fi; w = 0 }
  :: atomic { some_message(); if :: kind[k] != 0 -> arrives(k); check() :: else fi; k = 0 }
  :: atomic { some_message(); if :: kind[k] != 0 -> kind[k] = 0; whose[k] = 0; number[k] = 0; reached(7) :: else fi; k = 0 }
  :: atomic { losses < LOSE && writer != 0 -> losses++; writer = 0; value = 0; reached(8) }  /* the key is lost */
  :: atomic { !reads -> reads = true; read_writer = writer; read_value = value; before = (leads != 0 -> confirmed[leads] : 0) }
  :: atomic { reads ->
       reads = false;
       if :: leads != 0 -> shows(read_writer, leads, read_value) :: else fi;
       read_writer = 0; read_value = 0; before = 0 }
  od
}
