package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// A kind says what a client asked for.
type kind string

const (
	// Registers are services that stay; the value of one is the number of the event that wrote it.
	patchRegister kind = "patch register"  // one register; no revision is told
	swapRegister  kind = "swap register"   // one register by a document, which tells the revision and the value before
	swapPair      kind = "swap pair"       // two registers by one document
	planRead      kind = "plan"            // all registers, at a revision that is told
	freshRead     kind = "fresh read"      // the same, after the controller has asked etcd for the head
	plainRead     kind = "read register"   // one register, as the controller knows it
	sameDocument  kind = "same document"   // a document with the former value of a register, which may only find that it is so
	clusterRead   kind = "cluster"         // only the revision of a controller
	createUnique  kind = "create"          // a name that is asked for once
	applyUnique   kind = "create by apply" // the same by a document
	deleteUnique  kind = "delete"
	listUnique    kind = "list"
	claimName     kind = "claim name" // a create for a name that many want
	releaseName   kind = "release name"
	touchName     kind = "touch name" // a PATCH of whoever has the name
	holderRead    kind = "read name"  // who has it, after the controller has asked etcd for the head
)

// An outcome says what an answer means.
type outcome string

const (
	done    outcome = "done"
	refused outcome = "refused"     // 400, 404, 409: a rule forbids it
	notDone outcome = "unavailable" // 503 and 429 that promise that nothing was and will be changed
	notSent outcome = "not sent"    // there was no connection
	unknown outcome = "unknown"     // OUTCOME_UNKNOWN, or no answer
	failed  outcome = "fault"       // an answer that no fault of this program explains
)

// counts tells whether the change of an event may be in the network.
func (o outcome) counts() bool { return o == done || o == unknown || o == failed }

// An event is one operation of a client. Times are counted from the start of the run by the monotonic clock.
type event struct {
	Number     int            `json:"number"`
	Kind       kind           `json:"kind"`
	Client     int            `json:"client"`
	Controller int            `json:"controller"`
	Began      time.Duration  `json:"began"`
	Ended      time.Duration  `json:"ended"`
	Key        string         `json:"key,omitempty"`    // a register or a name
	Other      string         `json:"other,omitempty"`  // the second register
	Target     int            `json:"target,omitempty"` // the event that created what is deleted or touched
	Outcome    outcome        `json:"outcome"`
	Status     int            `json:"status,omitempty"`
	Code       string         `json:"code,omitempty"`
	Cause      string         `json:"cause,omitempty"`
	Revision   int64          `json:"revision,omitempty"` // told by the answer
	Seen       map[string]int `json:"seen,omitempty"`     // values of registers, or who has names
}

// writes tells whether the event writes a register.
func (e *event) writes(register string) bool {
	switch e.Kind {
	case patchRegister, swapRegister, swapPair:
		return e.Key == register || e.Other == register
	}
	return false
}

// isSwap tells whether a document of the event wrote registers; its answer tells what was there before.
func (e *event) isSwap() bool { return e.Kind == swapRegister || e.Kind == swapPair }

// tells whether a change of the event was made at the revision that its answer names.
func (e *event) hasRevision() bool {
	return e.Outcome == done && (e.isSwap() || e.Kind == applyUnique)
}

// A history is everything that happened.
type history struct {
	start  time.Time
	next   atomic.Int64
	lock   sync.Mutex
	events []*event
	// What is wrong at first sight.
	troubles []string
}

func newHistory() *history { return &history{start: time.Now()} }

func (h *history) now() time.Duration { return time.Since(h.start) }

// begin makes an event with a number of its own.
func (h *history) begin(what kind, client, controller int) *event {
	return &event{
		Number: int(h.next.Add(1)), Kind: what, Client: client, Controller: controller, Began: h.now(),
	}
}

// end notes an event whose outcome is set.
func (h *history) end(e *event) {
	e.Ended = h.now()
	h.lock.Lock()
	defer h.lock.Unlock()
	h.events = append(h.events, e)
}

func (h *history) trouble(text string) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.troubles = append(h.troubles, text)
}
