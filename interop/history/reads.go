package main

import (
	"cmp"
	"fmt"
	"slices"
)

// checkExact is about answers that tell the values of registers at a revision: plans, and what documents found.
func checkExact(v *evidence) string {
	written := v.writesByRevision()
	for _, e := range v.events {
		until := e.seenAt()
		if until == 0 {
			continue
		}
		for key, value := range e.Seen {
			writer := v.number[value]
			if writer == nil && value > registers || writer != nil && !writer.writes(key) {
				return lines(fmt.Sprintf("%s has the value %d, which nobody wrote there:", key, value), e)
			}
			expected := lastUntil(written[key], until)
			switch {
			case v.low[value] > until:
				return lines("a change was seen before it was made:", writer, e)
			case expected != nil && v.high[value] < expected.Revision:
				return lines(fmt.Sprintf("%s has an older value at revision %d than was written by then:", key, until),
					writer, expected, e)
			}
			// A pair is there as a whole.
			if writer != nil && writer.Kind == swapPair {
				other := writer.Key
				if other == key {
					other = writer.Other
				}
				if beside, seen := e.Seen[other]; seen && v.high[beside] < v.low[value] {
					return lines("only a part of a document was seen:", writer, v.number[beside], e)
				}
			}
		}
	}
	return ""
}

// checkOwn is about plain reads: a controller shows everything that it has acknowledged itself, and nothing older than
// it has shown.
func checkOwn(v *evidence) string {
	for controller := range controllers {
		for at := range registers {
			if failure := v.checkOwnOf(controller, registerName(at)); failure != "" {
				return failure
			}
		}
	}
	return ""
}

func (v *evidence) checkOwnOf(controller int, key string) string {
	var byEnd, reads []*event
	for _, e := range v.events {
		if _, seen := e.Seen[key]; e.Controller != controller || e.Outcome != done || !seen && !e.writes(key) {
			continue
		}
		byEnd = append(byEnd, e)
		if e.Kind == plainRead {
			reads = append(reads, e)
		}
	}
	slices.SortFunc(reads, func(a, b *event) int { return cmp.Compare(a.Began, b.Began) })
	// The value that was written last, for certain, of those that the controller knew, and how it is known.
	var newest, how *event
	at := 0
	for _, read := range reads {
		for ; at < len(byEnd) && byEnd[at].Ended < read.Began; at++ {
			known := byEnd[at]
			writer := known
			if !known.writes(key) {
				writer = v.number[known.Seen[key]]
			}
			if writer != nil && (newest == nil || v.low[writer.Number] > v.low[newest.Number]) {
				newest, how = writer, known
			}
		}
		if value := read.Seen[key]; newest != nil && v.high[value] < v.low[newest.Number] {
			return lines(fmt.Sprintf("a read of %s shows an older value than its controller had acknowledged or shown:", key),
				v.number[value], newest, how, read)
		}
	}
	return ""
}

// checkSame is about a document that is answered as applied though nothing was changed: the register had its value at
// some time of the request.
func checkSame(v *evidence) string {
	for _, e := range v.events {
		if e.Kind != sameDocument || e.Outcome != done {
			continue
		}
		for _, later := range v.events {
			if later.Ended < e.Began && later.Outcome == done && later.writes(e.Key) && v.low[later.Number] > v.high[e.Target] {
				what := fmt.Sprintf("a document with the value %d of %s is said to be applied, but %s had changed:", e.Target, e.Key, e.Key)
				return lines(what, v.number[e.Target], later, e)
			}
		}
	}
	return ""
}

// checkNotDone is about changes that were refused, or not made by the word of a controller.
func checkNotDone(v *evidence) string {
	for _, e := range v.events {
		for key, value := range e.Seen {
			if writer := v.number[value]; writer != nil && !writer.Outcome.counts() {
				return lines(fmt.Sprintf("%s shows a change that was not made:", key), writer, e)
			}
		}
	}
	for at, list := range v.final {
		for name, value := range list {
			if writer := v.number[value]; writer != nil && !writer.Outcome.counts() {
				return lines(fmt.Sprintf("at the end, %s at %s shows a change that was not made:", name, controllerName(at)), writer)
			}
		}
	}
	return ""
}
