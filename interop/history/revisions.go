package main

import (
	"cmp"
	"fmt"
	"slices"
)

// checkOrder compares each change with the highest revision that had been acknowledged before it began.
func checkOrder(v *evidence) string {
	byStart := slices.Clone(v.events)
	slices.SortFunc(byStart, func(a, b *event) int { return cmp.Compare(a.Began, b.Began) })
	var highest *event
	at := 0
	for _, e := range byStart {
		for ; at < len(v.events) && v.events[at].Ended < e.Began; at++ {
			if earlier := v.events[at]; earlier.hasRevision() && (highest == nil || earlier.Revision > highest.Revision) {
				highest = earlier
			}
		}
		if highest == nil || e.Outcome != done || e.Revision == 0 {
			continue
		}
		switch {
		case e.hasRevision() && e.Revision <= highest.Revision:
			return lines("a change has a lower revision than one that was acknowledged before it began:", highest, e)
		case e.Kind == freshRead && e.Revision < highest.Revision:
			return lines("a controller that had asked etcd did not know what was acknowledged before:", highest, e)
		}
	}
	return ""
}

func checkUnique(v *evidence) string {
	changes := map[int64]*event{}
	for _, e := range v.events {
		if !e.hasRevision() {
			continue
		}
		if other := changes[e.Revision]; other != nil {
			return lines("two changes have one revision:", other, e)
		}
		changes[e.Revision] = e
	}
	return ""
}

// checkControllers compares revisions that one controller tells, also before and after it was killed.
func checkControllers(v *evidence) string {
	for at := range controllers {
		failure := v.sweep(at, func(highest *event, e *event) string {
			if highest != nil && e.seenAt() > 0 && e.Revision < highest.Revision {
				return lines("a controller is at a lower revision than before:", highest, e)
			}
			return ""
		}, func(e *event) bool { return e.seenAt() > 0 || e.hasRevision() })
		if failure != "" {
			return failure
		}
	}
	return ""
}

// sweep calls a rule for each answer of a controller, in the order of their beginnings, with the event of the highest
// revision that the controller had told before in answers of a kind.
func (v *evidence) sweep(controller int, rule func(highest, e *event) string, tells func(*event) bool) string {
	var byStart []*event
	var byEnd []*event
	for _, e := range v.events {
		if e.Controller == controller && e.Outcome == done {
			byStart, byEnd = append(byStart, e), append(byEnd, e)
		}
	}
	slices.SortFunc(byStart, func(a, b *event) int { return cmp.Compare(a.Began, b.Began) })
	var highest *event
	at := 0
	for _, e := range byStart {
		for ; at < len(byEnd) && byEnd[at].Ended < e.Began; at++ {
			if told := byEnd[at]; tells(told) && (highest == nil || told.Revision > highest.Revision) {
				highest = told
			}
		}
		if failure := rule(highest, e); failure != "" {
			return failure
		}
	}
	return ""
}

// checkAfterPlan is about reads at a controller that had told a revision by a plan or an acknowledged change.
func checkAfterPlan(v *evidence) string {
	return v.checkAfter("a read does not show the revision that its controller had told before:",
		func(e *event) bool { return e.seenAt() > 0 || e.hasRevision() })
}

func checkAfterCluster(v *evidence) string {
	return v.checkAfter("a read does not show the revision that `/weft/v1/cluster` of its controller had told before:",
		func(e *event) bool { return e.Kind == clusterRead })
}

func (v *evidence) checkAfter(what string, tells func(*event) bool) string {
	written := v.writesByRevision()
	for at := range controllers {
		failure := v.sweep(at, func(highest, e *event) string {
			if e.Kind != plainRead || highest == nil {
				return ""
			}
			expected := lastUntil(written[e.Key], highest.Revision)
			if value := e.Seen[e.Key]; expected != nil && v.high[value] < expected.Revision {
				return lines(what, expected, highest, e) +
					fmt.Sprintf("\n  what was read was written by %s", v.number[value])
			}
			return ""
		}, tells)
		if failure != "" {
			return failure
		}
	}
	return ""
}

// writesByRevision are the changes of each register whose revisions are known, in their order.
func (v *evidence) writesByRevision() map[string][]*event {
	written := map[string][]*event{}
	for _, e := range v.events {
		if e.hasRevision() && e.isSwap() {
			for _, key := range []string{e.Key, e.Other} {
				written[key] = append(written[key], e)
			}
		}
	}
	for _, some := range written {
		slices.SortFunc(some, func(a, b *event) int { return cmp.Compare(a.Revision, b.Revision) })
	}
	return written
}

// lastUntil is the last of these changes that was made until a revision.
func lastUntil(written []*event, revision int64) *event {
	after, _ := slices.BinarySearchFunc(written, revision+1, func(e *event, r int64) int {
		return cmp.Compare(e.Revision, r)
	})
	if after == 0 {
		return nil
	}
	return written[after-1]
}
