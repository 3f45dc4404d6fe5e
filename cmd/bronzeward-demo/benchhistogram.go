package main

import (
	"context"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// histogram is one of Prometheus's: how many took at most so many seconds. sumKey holds the
// sum of all.
type histogram map[float64]float64

const sumKey = -1

// step is the histogram of one step of calls, as the first replica measures it.
func (h *benchHouse) step(ctx context.Context, name string) (histogram, error) {
	page, err := h.Gateways["gateway-1"].Metrics(ctx)
	if err != nil {
		return nil, err
	}
	return stepHistogram(page, name)
}

// stepHistogram reads the lines of a step on the page Prometheus reads.
func stepHistogram(page, name string) (histogram, error) {
	lines := regexp.MustCompile(`(?m)^bronzeward_call_step_seconds_(bucket|sum)\{(?:le="([^"]+)",)?step="` + name + `"(?:,le="([^"]+)")?\} (\S+)$`)
	out := histogram{sumKey: 0}
	for _, line := range lines.FindAllStringSubmatch(page, -1) {
		key, err := float64(sumKey), error(nil)
		if line[1] == "bucket" {
			if key, err = strconv.ParseFloat(line[2]+line[3], 64); err != nil {
				return nil, err
			}
		}
		if out[key], err = strconv.ParseFloat(line[4], 64); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (h histogram) since(before histogram) histogram {
	out := histogram{}
	for le, n := range h {
		out[le] = n - before[le]
	}
	return out
}

func (h histogram) plus(other histogram) {
	for le, n := range other {
		h[le] += n
	}
}

func (h histogram) count() float64 { return h[math.Inf(1)] }

func (h histogram) mean() time.Duration {
	return time.Duration(h[sumKey] / max(h.count(), 1) * float64(time.Second))
}

// bounds are the buckets' upper bounds, in order.
func (h histogram) bounds() []float64 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h)), func(le float64) bool { return le < 0 })
}

// atMost is the least bound that such a part did not exceed.
func (h histogram) atMost(part float64) time.Duration {
	for _, le := range h.bounds() {
		if h[le] >= part*h.count() && !math.IsInf(le, 1) {
			return time.Duration(le * float64(time.Second))
		}
	}
	return math.MaxInt64
}

// within is the part that took at most the greatest bound below so many seconds.
func (h histogram) within(seconds float64) float64 {
	part := 0.0
	for _, le := range h.bounds() {
		if le <= seconds {
			part = h[le] / max(h.count(), 1)
		}
	}
	return part
}
