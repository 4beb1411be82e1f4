package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Longest time for the history of one register or name.
const patience = time.Minute

// A step is what an operation does to one register or name. The state is the number of the event that gave it its
// value; zero is a free name.
type step struct {
	event *event
	// What the operation found, if its answer tells it.
	found func(state int) bool
	// What it leaves behind.
	leaves func(state int) int
}

var model = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		one, now := input.(step), state.(int)
		if one.found != nil && !one.found(now) {
			return false, now
		}
		if one.leaves == nil {
			return true, now
		}
		return true, one.leaves(now)
	},
	DescribeOperation: func(input, _ any) string {
		if one := input.(step); one.event != nil {
			return one.event.String()
		}
		return "the beginning, or the end"
	},
}

func is(value int) func(int) bool    { return func(state int) bool { return state == value } }
func isNot(value int) func(int) bool { return func(state int) bool { return state != value } }
func put(value int) func(int) int    { return func(int) int { return value } }

// swapIf changes one value to another one, and leaves all others.
func swapIf(from, to int) func(int) int {
	return func(state int) int {
		if state == from {
			return to
		}
		return state
	}
}

// sightings tells when the change of each event was first seen by anybody.
func (v *evidence) sightings() map[int]time.Duration {
	first := map[int]time.Duration{}
	note := func(value int, at time.Duration) {
		if earlier, seen := first[value]; !seen || at < earlier {
			first[value] = at
		}
	}
	for _, e := range v.events {
		for _, value := range e.Seen {
			note(value, e.Ended)
		}
	}
	for _, list := range v.final {
		for _, value := range list {
			note(value, v.over())
		}
	}
	return first
}

// over is a time after all events.
func (v *evidence) over() time.Duration { return v.events[len(v.events)-1].Ended + time.Second }

// linear looks for an order of the operations that explains all answers, and none that contradicts the clock.
func (v *evidence) linear(key string, first int, steps []porcupine.Operation) string {
	begin := porcupine.Operation{Input: step{leaves: put(first)}, Call: -2, Return: -1}
	steps = append(steps, begin)
	for at := range v.final {
		end := int64(v.over()) + 2*int64(at) + 1
		steps = append(steps, porcupine.Operation{Input: step{found: is(v.final[at][key])}, Call: end, Return: end + 1})
	}
	result, info := porcupine.CheckOperationsVerbose(model, steps, patience)
	switch result {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return fmt.Sprintf("%s: no answer within %v", key, patience)
	}
	var longest []int
	for _, some := range info.PartialLinearizations()[0] {
		if len(some) > len(longest) {
			longest = some
		}
	}
	// What comes first of that which finds no place.
	var stuck *event
	for at, one := range steps {
		e := one.Input.(step).event
		if !slices.Contains(longest, at) && e != nil && e.Outcome != unknown && (stuck == nil || e.Ended < stuck.Ended) {
			stuck = e
		}
	}
	if stuck == nil {
		return fmt.Sprintf("%s: what is there at the end does not follow from the answers: %v", key, v.final)
	}
	const around = 300 * time.Millisecond
	some := v.window(key, stuck.Began-around, stuck.Ended+around)
	return lines(fmt.Sprintf("%s: no order explains #%d; what happened around it:", key, stuck.Number), some...)
}

// operation puts an event into the form of the checker. A change without an answer may have happened until somebody
// saw it, or at any time if nobody can.
func operation(e *event, until time.Duration, found func(int) bool, leaves func(int) int) porcupine.Operation {
	if e.Outcome == done || e.Outcome == refused {
		until = e.Ended
	}
	return porcupine.Operation{
		ClientId: e.Client, Input: step{e, found, leaves}, Call: int64(e.Began), Return: int64(until),
	}
}

func checkRegisters(v *evidence) string {
	sighted := v.sightings()
	var failures []string
	for at := range registers {
		key := registerName(at)
		var steps []porcupine.Operation
		for _, e := range v.events {
			value, seen := e.Seen[key]
			switch {
			case e.writes(key) && e.Outcome.counts():
				// What nobody has seen left nothing behind that anybody knows of.
				if until, seen := sighted[e.Number]; seen || e.Outcome == done {
					var found func(int) bool
					if e.isSwap() && e.Outcome == done {
						found = is(value)
					}
					steps = append(steps, operation(e, until, found, put(e.Number)))
				}
			case e.Kind == freshRead && e.Outcome == done && seen:
				steps = append(steps, operation(e, 0, is(value), nil))
			}
		}
		failures = append(failures, v.linear(key, at+1, steps))
	}
	return joined(failures)
}

func checkNames(v *evidence) string {
	sighted := v.sightings()
	all := map[string][]porcupine.Operation{}
	for at := range contended {
		all[fmt.Sprint(contendedPrefix, at)] = nil
	}
	for _, e := range v.events {
		isKnown := e.Outcome == done || e.Outcome == refused
		if !isKnown && !e.Outcome.counts() {
			continue
		}
		until := v.over() + time.Hour
		var one porcupine.Operation
		switch e.Kind {
		case claimName:
			first, seen := sighted[e.Number]
			if !isKnown && !seen {
				continue
			}
			if !isKnown {
				until = first
			}
			one = operation(e, until, answered(e, is(0), isNot(0)), swapIf(0, e.Number))
		case releaseName:
			one = operation(e, until, answered(e, is(e.Target), isNot(e.Target)), swapIf(e.Target, 0))
		case touchName:
			// That it found nothing is held against a rule of its own.
			if e.Outcome != done {
				continue
			}
			one = operation(e, until, is(e.Target), nil)
		case holderRead:
			if e.Outcome != done {
				continue
			}
			one = operation(e, until, is(e.Seen[e.Key]), nil)
		default:
			continue
		}
		all[e.Key] = append(all[e.Key], one)
	}
	var failures []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		failures = append(failures, v.linear(key, 0, all[key]))
	}
	return joined(failures)
}

// answered is what an answer says about the state that an operation has found.
func answered(e *event, yes, no func(int) bool) func(int) bool {
	switch e.Outcome {
	case done:
		return yes
	case refused:
		return no
	}
	return nil
}

func joined(failures []string) string {
	failures = slices.DeleteFunc(failures, func(text string) bool { return text == "" })
	slices.SortFunc(failures, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	return strings.Join(failures, "\n")
}
