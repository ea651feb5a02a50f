// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// metricName is a metric of the library in a query.
var metricName = regexp.MustCompile(`\bsignalbox_\w+`)

// labels are names in queries that are no metrics.
var labels = []string{"signalbox_lock_kind", "signalbox_lock_class", "signalbox_lock_mode", "signalbox_lock_source", "signalbox_outcome"}

// served are metrics of "signalbox serve", whose tests know them.
var served = []string{"signalbox_up", "signalbox_list_age_seconds", "signalbox_shards_unowned_seconds", "signalbox_shards_draining_seconds"}

// Every metric and every label in the dashboard and in the rules is in a scrape, after each thing has happened once that is
// counted.
func TestTheDashboardAndTheRulesAskForWhatIsMeasured(t *testing.T) {
	t.Parallel()
	here, err := openLockServer()
	require.NoError(t, err)
	defer here.close()
	s, err := newService(here.option)
	require.NoError(t, err)
	defer s.close()
	require.NoError(t, s.ship(t.Context(), 1, time.Minute))
	live(t, s, here)

	found := make(map[string]bool)
	for line := range strings.Lines(scrape(t, s)) {
		if !strings.HasPrefix(line, "#") {
			for _, name := range metricName.FindAllString(line, -1) {
				found[name] = true
			}
		}
	}
	for _, file := range []string{"dashboard.json", "alerts.yaml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		requested := metricName.FindAllString(string(text), -1)
		require.NotEmpty(t, requested)
		for _, name := range requested {
			require.True(t, found[name] || slices.Contains(served, name), "%s asks for %s", file, name)
		}
	}
	for _, label := range labels[:2] {
		require.True(t, found[label], label)
	}
}

// live lets everything happen once that a metric counts and that a worker does not cause.
func live(t *testing.T, s *service, here *lockServer) {
	t.Helper()
	forced, err := reentrant.New(s.session, "forced", signalbox.WithClass("orders")).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, reentrant.New(s.session, "forced").ForceUnlock(t.Context()))
	<-forced.Done()
	require.ErrorIs(t, forced.Unlock(), signalbox.ErrLost)

	// A renewal is due after 33 ms. A lease is lost if a busy machine comes to that too late, and the next one is taken.
	quick := reentrant.New(s.session, "quick", signalbox.WithFirstLease(100*time.Millisecond))
	for !strings.Contains(scrape(t, s), "signalbox_renewal_lag_ratio_bucket") {
		lease, err := quick.Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(lease.Bind(t.Context()), 50*time.Millisecond)
		<-ctx.Done()
		cancel()
		_ = lease.Unlock()
	}

	unconfirmed, err := reentrant.New(s.session, "unconfirmed", signalbox.WithFirstLease(time.Minute)).Lock(t.Context())
	require.NoError(t, err)
	here.embedded.Close()
	require.ErrorIs(t, unconfirmed.Unlock(), signalbox.ErrUnconfirmed)
}

func scrape(t *testing.T, s *service) string {
	t.Helper()
	reply := httptest.NewRecorder()
	s.handler.ServeHTTP(reply, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, reply.Code)
	return reply.Body.String()
}

// The rules have the form that Prometheus reads: no field is unknown, and each has a summary.
func TestTheRulesAreWellFormed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&file))
	require.Len(t, file.Groups, 1)
	require.Len(t, file.Groups[0].Rules, 12)
	for _, rule := range file.Groups[0].Rules {
		require.True(t, strings.HasPrefix(rule.Alert, "Signalbox"), rule.Alert)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		require.NotEmpty(t, rule.Labels["severity"], rule.Alert)
		require.Equal(t, strings.Count(rule.Expr, "("), strings.Count(rule.Expr, ")"), rule.Alert)
	}
}

// Every panel of the dashboard has a query.
func TestEveryPanelHasAQuery(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.Len(t, dashboard.Panels, 11)
	for _, panel := range dashboard.Panels {
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			require.Regexp(t, metricName, target.Expr, panel.Title)
		}
	}
}
