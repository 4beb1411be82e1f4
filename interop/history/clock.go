package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
)

// A clock is the one of a controller whose time jumps at each start, by libfaketime.
type clock struct {
	library string
	lock    sync.Mutex
	dice    *rand.Rand
	// Whether the clock is right from now on.
	isRight bool
}

// findClock returns none if the library is not installed.
func findClock(dice *rand.Rand) *clock {
	folders := []string{"/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime"}
	for _, pattern := range folders {
		found, _ := filepath.Glob(filepath.Join(pattern, "libfaketimeMT.so.1"))
		if len(found) > 0 {
			return &clock{library: found[0], dice: dice}
		}
	}
	return nil
}

func (c *clock) environment() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.isRight {
		return nil
	}
	// The time of day alone: clocks that only measure go on as they do.
	return []string{
		"LD_PRELOAD=" + c.library, "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
		fmt.Sprintf("FAKETIME=%+d", c.dice.IntN(11)-5),
	}
}

func (c *clock) correct() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.isRight = true
}
