package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// checkUniques is about services that were created once, and deleted at most once.
func checkUniques(v *evidence) string {
	deletes := map[int]*event{}
	for _, e := range v.events {
		if e.Kind == deleteUnique {
			deletes[e.Target] = e
		}
	}
	if failure := v.checkDeletes(deletes); failure != "" {
		return failure
	}
	if failure := v.checkLists(deletes); failure != "" {
		return failure
	}
	for at, list := range v.final {
		for _, e := range v.events {
			if !e.creates() {
				continue
			}
			gone := deletes[e.Number]
			_, there := list[e.Key]
			switch {
			case there && list[e.Key] != e.Number:
				return lines(fmt.Sprintf("at the end, %s shows %s of another event:", controllerName(at), e.Key), e)
			case there && gone != nil && gone.Outcome == done:
				return lines(fmt.Sprintf("at the end, %s shows what was deleted:", controllerName(at)), e, gone)
			case !there && e.Outcome == done && (gone == nil || !gone.Outcome.counts()):
				return lines(fmt.Sprintf("at the end, %s does not show what was created:", controllerName(at)), e, gone)
			}
		}
	}
	return ""
}

func (e *event) creates() bool { return e.Kind == createUnique || e.Kind == applyUnique }

// checkDeletes is about answers to the only one who deletes: the service is there.
func (v *evidence) checkDeletes(deletes map[int]*event) string {
	for _, gone := range deletes {
		if made := v.number[gone.Target]; gone.Outcome == refused && made.Outcome == done {
			return lines("what was created is said not to be there:", made, gone)
		}
	}
	return ""
}

// checkTouches is about a PATCH that found nothing. The service was acknowledged before, by any controller, and nobody
// had begun to release it.
func checkTouches(v *evidence) string {
	released := map[int]*event{}
	for _, e := range v.events {
		first := released[e.Target]
		if e.Kind == releaseName && e.Outcome.counts() && (first == nil || e.Began < first.Began) {
			released[e.Target] = e
		}
	}
	for _, e := range v.events {
		if e.Kind != touchName || e.Outcome != refused {
			continue
		}
		made, gone := v.number[e.Target], released[e.Target]
		if made.Outcome == done && made.Ended < e.Began && (gone == nil || gone.Began > e.Ended) {
			return lines("a PATCH did not find what was there all the time:", made, e, gone)
		}
	}
	return ""
}

// checkLists holds each list against what the same controller had acknowledged or shown.
func (v *evidence) checkLists(deletes map[int]*event) string {
	// When each controller first acknowledged or showed a service, and by which event.
	var known [controllers]map[int]*event
	for at := range known {
		known[at] = map[int]*event{}
	}
	note := func(e *event, number int) {
		if known[e.Controller][number] == nil {
			known[e.Controller][number] = e
		}
	}
	for _, e := range v.events {
		if e.Outcome == done && e.creates() {
			note(e, e.Number)
		}
		if e.Kind == listUnique {
			for _, number := range e.Seen {
				note(e, number)
			}
		}
	}
	for _, list := range v.events {
		if list.Kind != listUnique || list.Outcome != done || len(list.Seen) >= limit {
			continue
		}
		for number, how := range known[list.Controller] {
			made, gone := v.number[number], deletes[number]
			_, there := list.Seen[made.Key]
			if !strings.HasPrefix(made.Key, list.Key) || how.Ended >= list.Began {
				continue
			}
			if !there && (gone == nil || !gone.Outcome.counts() || gone.Began > list.Ended) {
				return lines(fmt.Sprintf("a list lacks %s, which its controller had acknowledged or shown:", made.Key), made, how, list)
			}
		}
		for name, number := range list.Seen {
			made, gone := v.number[number], deletes[number]
			switch {
			case made == nil || made.Key != name:
				return lines(fmt.Sprintf("a list has %s by event %d, which did not make it:", name, number), list)
			case made.Began > list.Ended:
				return lines("a list shows what was not there yet:", made, list)
			case gone != nil && gone.Outcome == done && gone.Controller == list.Controller && gone.Ended < list.Began:
				return lines("a list shows what its controller had deleted:", made, gone, list)
			}
		}
	}
	return ""
}

// settled reads everything at each controller until all show the same, and returns what they show.
func settled(read func(controller int) (map[string]int, error), long time.Duration) ([]map[string]int, error) {
	until := time.Now().Add(long)
	for {
		final, problem := make([]map[string]int, controllers), error(nil)
		for at := range final {
			if final[at], problem = read(at); problem != nil {
				break
			}
		}
		if problem == nil {
			if problem = differences(final); problem == nil {
				return final, nil
			}
		}
		if time.Now().After(until) {
			return final, problem
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func differences(final []map[string]int) error {
	for at := range final {
		other := (at + 1) % len(final)
		var some []string
		for name, number := range final[at] {
			if final[other][name] != number {
				some = append(some, fmt.Sprintf("%s is of event %d at %s and of %d at %s", name, number, controllerName(at),
					final[other][name], controllerName(other)))
			}
		}
		if len(some) > 0 {
			slices.Sort(some)
			return fmt.Errorf("%d services differ at the end: %s", len(some), strings.Join(some[:min(len(some), 5)], "; "))
		}
	}
	return nil
}
