// Reads questions, one JSON document a line, and answers what Prometheus' own engine makes of each: an expression, series
// with samples, and the instant at which it is asked. Seconds since 1970 everywhere. An answer is the resulting vector as
// one JSON document a line, or {"error": "..."}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

type question struct {
	Expr   string  `json:"expr"`
	At     float64 `json:"at"`
	Series []struct {
		Labels  map[string]string `json:"labels"`
		Samples [][2]float64      `json:"samples"`
	} `json:"series"`
}

type row struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
}

type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// stored has every series of one question, and selects by Prometheus' own matchers.
type stored struct{ series []storage.Series }

func (s stored) Querier(_, _ int64) (storage.Querier, error) { return s, nil }
func (s stored) Close() error                                { return nil }

func (s stored) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (s stored) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (s stored) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &selected{at: -1}
	for _, one := range s.series {
		if isMatched(one.Labels(), matchers) {
			found.series = append(found.series, one)
		}
	}
	return found
}

func isMatched(of labels.Labels, matchers []*labels.Matcher) bool {
	for _, matcher := range matchers {
		if !matcher.Matches(of.Get(matcher.Name)) {
			return false
		}
	}
	return true
}

type selected struct {
	series []storage.Series
	at     int
}

func (s *selected) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *selected) At() storage.Series                { return s.series[s.at] }
func (s *selected) Err() error                        { return nil }
func (s *selected) Warnings() annotations.Annotations { return nil }

func answer(engine *promql.Engine, asked question) (any, error) {
	var all stored
	for _, one := range asked.Series {
		samples := make([]chunks.Sample, 0, len(one.Samples))
		for _, each := range one.Samples {
			samples = append(samples, sample{int64(each[0] * 1000), each[1]})
		}
		all.series = append(all.series, storage.NewListSeries(labels.FromMap(one.Labels), samples))
	}
	ctx, at := context.Background(), time.UnixMilli(int64(asked.At*1000))
	query, err := engine.NewInstantQuery(ctx, all, nil, asked.Expr, at)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	vector, err := query.Exec(ctx).Vector()
	if err != nil {
		return nil, err
	}
	rows := make([]row, 0, len(vector))
	for _, one := range vector {
		rows = append(rows, row{one.Metric.Map(), one.F})
	}
	return rows, nil
}

func main() {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, "not a question:", err)
			os.Exit(1)
		}
		told, err := answer(engine, asked)
		if err != nil {
			told = map[string]string{"error": err.Error()}
		}
		if err := out.Encode(told); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
