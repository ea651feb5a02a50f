// SPDX-License-Identifier: Apache-2.0

package errs

import (
	"errors"
	"fmt"
	"strings"
)

// Join is errors.Join with the texts on one line, because logs are line-based. If only one error is
// not nil, Join returns that error itself.
func Join(all ...error) error {
	var some []error // most calls join nothing, and allocate nothing
	for _, err := range all {
		if err != nil {
			some = append(some, err)
		}
	}
	switch len(some) {
	case 0:
		return nil
	case 1:
		return some[0]
	}
	return &joinedError{some, "; "}
}

// joinedError is several errors on one line.
type joinedError struct {
	all       []error
	separator string
}

// Error implements error.
func (j *joinedError) Error() string {
	texts := make([]string, len(j.all))
	for i, err := range j.all {
		texts[i] = OneLine(err.Error())
	}
	return strings.Join(texts, j.separator)
}

// Unwrap makes errors.Is and errors.As search all of them.
func (j *joinedError) Unwrap() []error { return j.all }

// OneLine returns text with "; " instead of line breaks, which the words of a server or of a
// caller's cause may contain.
func OneLine(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\r' || r == '\n' }), "; ")
}

// ErrHeldHere is the ErrHeld of a call behind others of its own session, which hold the lock or wait for it.
var ErrHeldHere = fmt.Errorf("%w, or waited for, by this session; its holder enters it again by the context of Lease.Enter", ErrHeld)

// WhileHeld is the error of a wait that ended with err while the lock was held.
func WhileHeld(err error) error { return whileHeld(ErrHeld, err) }

// WhileHeldHere is WhileHeld for a wait behind others of the session.
func WhileHeldHere(err error) error { return whileHeld(ErrHeldHere, err) }

func whileHeld(held, err error) error {
	if errors.Is(err, ErrHeld) {
		return err
	}
	return &joinedError{[]error{held, err}, ": "}
}
