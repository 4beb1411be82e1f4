package main

import (
	"strings"
	"testing"
	"time"
)

// A past makes histories, an event after the other.
type past struct {
	history *history
	now     time.Duration
}

func newPast() *past {
	p := &past{history: newHistory()}
	p.history.next.Store(registers)
	return p
}

// add appends an event that is alone in its time, and returns it.
func (p *past) add(what kind, controller int, key string, as outcome, change func(*event)) *event {
	e := &event{Number: int(p.history.next.Add(1)), Kind: what, Controller: controller, Key: key, Outcome: as, Began: p.now}
	p.now += time.Millisecond
	e.Ended = p.now
	p.now += time.Millisecond
	if change != nil {
		change(e)
	}
	p.history.events = append(p.history.events, e)
	return e
}

func (p *past) swap(controller int, revision int64, before int) *event {
	return p.add(swapRegister, controller, "register-0", done, func(e *event) {
		e.Revision, e.Seen = revision, map[string]int{"register-0": before}
	})
}

func saw(value int) func(*event) {
	return func(e *event) { e.Seen = map[string]int{e.Key: value} }
}

func holds(revision int64, value int) func(*event) {
	return func(e *event) { e.Revision, e.Seen = revision, map[string]int{"register-0": value} }
}

// Each history breaks a rule, and the check of that rule says so.
func TestBrokenRules(t *testing.T) {
	for name, one := range map[string]struct {
		check func(*evidence) string
		build func(*past)
	}{
		"order": {checkOrder, func(p *past) { p.swap(0, 7, 1); p.swap(1, 6, 6) }},
		"stale fresh read": {checkOrder, func(p *past) {
			p.swap(0, 7, 1)
			p.add(freshRead, 1, "", done, holds(6, 1))
		}},
		"one revision twice": {checkUnique, func(p *past) { p.swap(0, 7, 1); p.swap(1, 7, 6) }},
		"a controller goes back": {checkControllers, func(p *past) {
			p.swap(0, 7, 1)
			p.add(planRead, 0, "", done, holds(6, 1))
		}},
		"not done, and seen": {checkNotDone, func(p *past) {
			e := p.add(patchRegister, 0, "register-0", notDone, nil)
			p.add(plainRead, 1, "register-0", done, saw(e.Number))
		}},
		"lost in a plan": {checkExact, func(p *past) {
			p.swap(0, 7, 1)
			p.add(planRead, 1, "", done, holds(8, 1))
		}},
		"lost at its controller": {checkOwn, func(p *past) {
			p.swap(0, 7, 1)
			p.add(plainRead, 0, "register-0", done, saw(1))
		}},
		"lost after a plan": {checkAfterPlan, func(p *past) {
			p.swap(0, 7, 1)
			p.add(planRead, 1, "", done, func(e *event) { e.Revision = 7 })
			p.add(plainRead, 1, "register-0", done, saw(1))
		}},
		"lost for the next writer": {checkRegisters, func(p *past) {
			p.add(patchRegister, 0, "register-0", done, nil)
			p.swap(1, 7, 1)
		}},
		"back from an unknown outcome": {checkRegisters, func(p *past) {
			e := p.add(patchRegister, 0, "register-0", unknown, nil)
			p.swap(1, 7, 1)
			p.swap(1, 8, e.Number)
			p.swap(1, 9, e.Number)
		}},
		"a name twice": {checkNames, func(p *past) {
			p.add(claimName, 0, "contended-0", done, nil)
			p.add(claimName, 1, "contended-0", done, nil)
		}},
		"missed by a PATCH": {checkTouches, func(p *past) {
			made := p.add(claimName, 0, "contended-0", done, nil)
			p.add(touchName, 1, "contended-0", refused, func(e *event) { e.Target = made.Number })
		}},
		"a stale document": {checkSame, func(p *past) {
			first := p.swap(0, 7, 1)
			p.swap(0, 8, first.Number)
			p.add(sameDocument, 1, "register-0", done, func(e *event) { e.Target = first.Number })
		}},
		"missing in a list": {checkUniques, func(p *past) {
			p.add(createUnique, 0, "unique-0-1", done, nil)
			p.add(listUnique, 0, "unique-0-", done, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPast()
			one.build(p)
			if one.check(newEvidence(p.history)) == "" {
				t.Error("nothing was found")
			}
		})
	}
}

// A history without a fault, with a change of unknown outcome that came late.
func TestRightHistory(t *testing.T) {
	p := newPast()
	late := p.add(patchRegister, 2, "register-0", unknown, nil)
	first := p.swap(0, 7, 1)
	p.add(plainRead, 1, "register-0", done, saw(1))
	second := p.swap(1, 9, late.Number)
	p.add(planRead, 1, "", done, holds(9, second.Number))
	p.add(plainRead, 2, "register-0", done, saw(first.Number))
	v := newEvidence(p.history)
	for _, one := range checks {
		if failure := one.run(v); failure != "" {
			t.Errorf("%s: %s", one.name, failure)
		}
	}
	if text := second.String(); !strings.Contains(text, "revision 9") {
		t.Error(text)
	}
}
