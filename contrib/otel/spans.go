// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-go/signalbox"
)

// maxHolders bounds the number of locks whose last hold is remembered.
const maxHolders = 1024

type spans struct {
	tracer trace.Tracer
	names  bool // reports whether spans have the names of locks

	mu       sync.Mutex
	lastHold map[lockID]trace.Link // a link to the last hold of each lock in this process
}

// lockID identifies a lock of the process.
type lockID struct{ kind, name string }

// callSpans are the spans of one call and its lease. The hooks of one call follow each other, so nothing guards it.
type callSpans struct {
	parent context.Context //nolint:containedctx // the parent of both spans
	wait   trace.Span
	hold   trace.Span
}

type callSpansKey struct{}

func newSpans(tracer trace.Tracer, names bool) *spans {
	return &spans{tracer: tracer, names: names, lastHold: make(map[lockID]trace.Link)}
}

// observer returns the hooks. They need the names of locks to know which hold was before, whether or not spans show them.
func (s *spans) observer() signalbox.Observer {
	return signalbox.Observer{
		Names: true, Waiting: s.waiting, Acquired: s.acquired, Refused: s.refused,
		Released: s.released, Lost: s.lost, Unconfirmed: s.unconfirmed,
	}
}

func (s *spans) waiting(ctx context.Context, e signalbox.Event) context.Context {
	v := &callSpans{parent: ctx}
	_, v.wait = s.tracer.Start(ctx, e.Kind+" wait", trace.WithAttributes(s.attributes(e)...))
	return context.WithValue(ctx, callSpansKey{}, v)
}

func (s *spans) acquired(ctx context.Context, e signalbox.Event) context.Context {
	v := callSpansOf(ctx)
	if v == nil {
		return ctx
	}
	v.wait.SetAttributes(attribute.String("signalbox.outcome", "acquired"), attribute.String("signalbox.lock.source", e.Source))
	_, v.hold = s.tracer.Start(v.parent, e.Kind+" hold", trace.WithAttributes(append(s.attributes(e), token(e))...))
	if before := s.linkPrevious(v.hold, e); before.SpanContext.IsValid() {
		v.wait.AddLink(before)
	}
	v.wait.End()
	return ctx
}

func (s *spans) refused(ctx context.Context, e signalbox.Event) {
	if v := callSpansOf(ctx); v != nil {
		end(v.wait, e.Outcome, e.Outcome != "held" && e.Outcome != "canceled")
	}
}

func (s *spans) released(ctx context.Context, _ signalbox.Event) {
	if v := callSpansOf(ctx); v != nil && v.hold != nil {
		end(v.hold, "released", false)
	}
}

func (s *spans) lost(ctx context.Context, e signalbox.Event) {
	if v := callSpansOf(ctx); v != nil && v.hold != nil {
		end(v.hold, e.Outcome, true)
	}
}

func (s *spans) unconfirmed(ctx context.Context, e signalbox.Event) {
	if v := callSpansOf(ctx); v != nil && v.hold != nil {
		v.hold.AddEvent("unconfirmed", trace.WithAttributes(attribute.String("signalbox.outcome", e.Outcome)))
	}
}

func callSpansOf(ctx context.Context) *callSpans {
	v, _ := ctx.Value(callSpansKey{}).(*callSpans)
	return v
}

// end ends a span. An outcome that is an error is its status and its type: few words, and no name of a lock.
func end(span trace.Span, outcome string, failed bool) { //nolint:revive // a fact about the outcome
	span.SetAttributes(attribute.String("signalbox.outcome", outcome))
	if failed {
		span.SetAttributes(attribute.String("error.type", outcome))
		span.SetStatus(codes.Error, outcome)
	}
	span.End()
}

// linkPrevious makes hold the last one of its lock, and returns a link to the one before. When too many are remembered, all are
// forgotten.
func (s *spans) linkPrevious(hold trace.Span, e signalbox.Event) (before trace.Link) {
	at := lockID{e.Kind, e.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.lastHold[at]
	if len(s.lastHold) >= maxHolders {
		clear(s.lastHold)
	}
	s.lastHold[at] = trace.Link{SpanContext: hold.SpanContext(), Attributes: []attribute.KeyValue{token(e)}}
	return before
}

// token returns the fencing token. Tokens are below 2^63 for the next seventy thousand years.
func token(e signalbox.Event) attribute.KeyValue {
	return attribute.Int64("signalbox.lock.token", int64(e.Token)) //nolint:gosec // see above
}

// attributes returns those of the lock.
func (s *spans) attributes(e signalbox.Event) []attribute.KeyValue {
	all := labels{kind: e.Kind, class: e.Class, shared: e.Shared}.attributes()
	if s.names && e.Name != "" {
		all = append(all, attribute.String("signalbox.lock.name", e.Name))
	}
	return all
}
