//go:build tools

// Package tools names the programs that the testbed builds, so that go.mod pins all they need.
package tools

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
