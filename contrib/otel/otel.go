// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-go/signalbox"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/signalbox-go/signalbox/contrib/otel"

// Option sets something for Observer.
type Option func(*settings)

type settings struct {
	waits, holds []float64
	names        bool
}

// WithWaitBuckets sets the boundaries of the wait histogram, in seconds. They are finite numbers that
// rise; the default is from 0.5 ms to 60 s.
func WithWaitBuckets(boundaries ...float64) Option {
	return func(s *settings) { s.waits = slices.Clone(boundaries) }
}

// WithHoldBuckets sets the boundaries of the hold histogram, in seconds. They are finite numbers that
// rise; the default is from 1 ms to an hour.
func WithHoldBuckets(boundaries ...float64) Option {
	return func(s *settings) { s.holds = slices.Clone(boundaries) }
}

// WithNames puts the names of locks into spans, as signalbox.lock.name. They may be personal data.
func WithNames() Option { return func(s *settings) { s.names = true } }

// Observer returns an observer that measures with meters and makes spans with tracers. Either may be nil: then there
// are no metrics, or no spans. It returns signalbox.ErrBadOption for boundaries that do not rise, and another error if an
// instrument cannot be made.
func Observer(meters metric.MeterProvider, tracers trace.TracerProvider, options ...Option) (signalbox.Observer, error) {
	set := settings{
		waits: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		holds: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600},
	}
	for _, option := range options {
		if option != nil {
			option(&set)
		}
	}
	if err := cmp.Or(checkBuckets("WithWaitBuckets", set.waits), checkBuckets("WithHoldBuckets", set.holds)); err != nil {
		return signalbox.Observer{}, err
	}
	var observers []signalbox.Observer
	if meters != nil {
		m, err := newMetrics(meters.Meter(scope), set)
		if err != nil {
			return signalbox.Observer{}, err
		}
		observers = append(observers, m.observer())
	}
	if tracers != nil {
		observers = append(observers, newSpans(tracers.Tracer(scope), set.names).observer())
	}
	return signalbox.Observers(observers...), nil
}

// checkBuckets returns an error if the boundaries that option was given are not finite numbers that rise.
func checkBuckets(option string, boundaries []float64) error {
	for i, b := range boundaries {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= boundaries[i-1] {
			return fmt.Errorf("signalbox/otel: %w: %s: boundary %d is %v: each must be a number greater than the one before",
				signalbox.ErrBadOption, option, i+1, b)
		}
	}
	return nil
}
