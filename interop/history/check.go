package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

const never = math.MaxInt64

// A check holds a finished history against a rule. The text is empty if the rule holds, and otherwise the least that
// shows that it does not.
type check struct {
	name string
	run  func(*evidence) string
}

var checks = []check{
	{"answers are as expected, and no process ends by itself", checkTroubles},
	{"revisions agree with real time", checkOrder},
	{"a revision has one change", checkUnique},
	{"the revision of a controller does not go back", checkControllers},
	{"what was not done is nowhere", checkNotDone},
	{"reads at a revision show what was written until then", checkExact},
	{"reads show what their controller had acknowledged or shown before", checkOwn},
	{"reads after a plan with a revision show that revision", checkAfterPlan},
	{"reads after `/weft/v1/cluster` with a revision show that revision", checkAfterCluster},
	{"registers are linearizable", checkRegisters},
	{"contended names are linearizable", checkNames},
	{"a PATCH misses nothing that was there", checkTouches},
	{"a document that changes nothing is as the network is", checkSame},
	{"created services stay until they are deleted", checkUniques},
}

// evidence is a history in a form that checks can use.
type evidence struct {
	events []*event // by their end
	number map[int]*event
	// When, in revisions, a register was written by an event: not before low, and not after high.
	low, high map[int]int64
	// What each controller showed when all was over.
	final    []map[string]int
	troubles []string
}

func newEvidence(h *history) *evidence {
	h.lock.Lock()
	defer h.lock.Unlock()
	v := &evidence{
		events: slices.Clone(h.events), number: map[int]*event{}, low: map[int]int64{}, high: map[int]int64{},
		troubles: slices.Clone(h.troubles),
	}
	slices.SortFunc(v.events, func(a, b *event) int { return cmp.Compare(a.Ended, b.Ended) })
	for _, e := range v.events {
		v.number[e.Number] = e
	}
	v.bound()
	return v
}

// bound finds out between which revisions each change was made.
func (v *evidence) bound() {
	byStart := slices.Clone(v.events)
	slices.SortFunc(byStart, func(a, b *event) int { return cmp.Compare(a.Began, b.Began) })
	// Every revision that was told before a change began is before it.
	highest, at := int64(0), 0
	for _, e := range byStart {
		for ; at < len(v.events) && v.events[at].Ended < e.Began; at++ {
			highest = max(highest, v.events[at].Revision)
		}
		v.low[e.Number], v.high[e.Number] = highest+1, never
	}
	// Every change that began after one was acknowledged is after that.
	lowest, at := int64(never), len(byStart)-1
	for _, e := range slices.Backward(v.events) {
		for ; at >= 0 && byStart[at].Began > e.Ended; at-- {
			if byStart[at].hasRevision() {
				lowest = min(lowest, byStart[at].Revision)
			}
		}
		if e.Outcome == done && lowest != never {
			v.high[e.Number] = lowest - 1
		}
	}
	for _, e := range v.events {
		if e.hasRevision() {
			v.low[e.Number], v.high[e.Number] = e.Revision, e.Revision
		}
	}
	// What was seen at a revision was made until then.
	for _, e := range v.events {
		for _, value := range e.Seen {
			if until := e.seenAt(); until > 0 && v.number[value] != nil {
				v.high[value] = min(v.high[value], until)
			}
		}
	}
}

// seenAt is the revision at which the event has seen registers; zero if it tells none.
func (e *event) seenAt() int64 {
	switch {
	case e.Outcome != done:
		return 0
	case e.isSwap():
		return e.Revision - 1
	case e.Kind == planRead || e.Kind == freshRead:
		return e.Revision
	}
	return 0
}

func (e *event) String() string {
	if e == nil {
		return "(none, or before all operations)"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "#%d %s %s", e.Number, e.Kind, e.Key)
	if e.Other != "" {
		fmt.Fprintf(&text, " and %s", e.Other)
	}
	if e.Target != 0 {
		fmt.Fprintf(&text, " of #%d", e.Target)
	}
	fmt.Fprintf(&text, " at %s by client %d, %.4fs to %.4fs: %s", controllerName(e.Controller), e.Client,
		e.Began.Seconds(), e.Ended.Seconds(), e.Outcome)
	if e.Status != 0 {
		fmt.Fprintf(&text, " %d %s", e.Status, e.Code)
	}
	if e.Cause != "" {
		fmt.Fprintf(&text, " (%s)", e.Cause)
	}
	if e.Revision != 0 {
		fmt.Fprintf(&text, ", revision %d", e.Revision)
	}
	if len(e.Seen) > 0 && len(e.Seen) < 8 {
		fmt.Fprintf(&text, ", saw %v", e.Seen)
	}
	return text.String()
}

// lines joins events to the text of a failure.
func lines(what string, events ...*event) string {
	text := []string{what}
	for _, e := range events {
		text = append(text, "  "+e.String())
	}
	return strings.Join(text, "\n")
}

func checkTroubles(v *evidence) string {
	const most = 8
	if len(v.troubles) > most {
		return strings.Join(v.troubles[:most], "\n") + fmt.Sprintf("\nand %d more", len(v.troubles)-most)
	}
	return strings.Join(v.troubles, "\n")
}

// window returns what happened to a register in a time, for a failure that needs the whole.
func (v *evidence) window(key string, from, to time.Duration) []*event {
	var some []*event
	for _, e := range v.events {
		_, seen := e.Seen[key]
		if (e.Key == key || e.Other == key || seen) && e.Ended >= from && e.Began <= to {
			some = append(some, e)
		}
	}
	return some
}
