// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// promtool runs Prometheus's own tool, which make prometheus fetches.
func promtool(t *testing.T, arguments ...string) {
	t.Helper()
	tool := os.Getenv("SIGNALBOX_PROMTOOL")
	if tool == "" {
		t.Skip("SIGNALBOX_PROMTOOL names no promtool; make prometheus fetches one")
	}
	said, err := exec.CommandContext(t.Context(), tool, arguments...).CombinedOutput()
	require.NoError(t, err, string(said))
}

// Prometheus reads the rules, and each alert fires when it should, and not when it should not.
func TestEachAlertFiresWhenItShould(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "config", "prometheus.yml") // with the rules
	promtool(t, "test", "rules", "alerts_test.yaml")
	rules, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	tests, err := os.ReadFile("alerts_test.yaml")
	require.NoError(t, err)
	for line := range strings.Lines(string(rules)) {
		if _, alert, found := strings.Cut(strings.TrimSpace(line), "alert: "); found {
			require.Contains(t, string(tests), "alertname: "+alert+"\n        exp_alerts:", "it fires in a test")
			require.Contains(t, string(tests), "alertname: "+alert+"}", "it is quiet in a test")
		}
	}
}

// Prometheus reads every query of the dashboard, as the expression of a recording rule.
func TestPrometheusReadsTheQueriesOfTheDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*") // of Grafana
	type rule struct{ Record, Expr string }
	var rules []rule
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			rules = append(rules, rule{fmt.Sprintf("query:number_%d", len(rules)), variables.Replace(target.Expr)})
		}
	}
	require.NotEmpty(t, rules)
	file, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "dashboard.yaml")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	promtool(t, "check", "rules", path)
}
