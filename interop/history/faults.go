package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"
)

// At most this many things are broken at a time.
const atOnce = 2

// A fault breaks something for a while and mends it.
type fault struct {
	name   string
	target string
	do     func() error
	undo   func() error
	long   time.Duration
}

// A breaker breaks what it may, in an order that its seed decides.
type breaker struct {
	network *network
	dice    *rand.Rand
	history *history
	lock    sync.Mutex
	counts  map[string]int
	told    []string
	busy    map[string]bool
	running sync.WaitGroup
}

// run breaks things until the context ends, and returns when all are mended.
func (b *breaker) run(ctx context.Context) {
	for {
		pause(ctx, 500*time.Millisecond+b.millis(2500))
		if ctx.Err() != nil {
			break
		}
		// All numbers are drawn here, so that a seed gives the same faults.
		next := b.choose()
		b.lock.Lock()
		isFree := len(b.busy) < atOnce && !b.busy[next.target]
		if isFree {
			b.busy[next.target] = true
			b.counts[next.name]++
		}
		b.lock.Unlock()
		if isFree {
			b.running.Go(func() { b.happen(ctx, next) })
		}
	}
	b.running.Wait()
}

func (b *breaker) millis(most int) time.Duration {
	return time.Duration(b.dice.IntN(most)) * time.Millisecond
}

func (b *breaker) happen(ctx context.Context, f fault) {
	began := b.history.now()
	err := f.do()
	pause(ctx, f.long)
	if mended := f.undo(); err == nil {
		err = mended
	}
	if err != nil {
		b.history.trouble(fmt.Sprintf("%s of %s: %v", f.name, f.target, err))
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	delete(b.busy, f.target)
	b.told = append(b.told, fmt.Sprintf(
		"%8.3fs to %8.3fs  %s of %s", began.Seconds(), b.history.now().Seconds(), f.name, f.target,
	))
}

// choose draws a fault.
func (b *breaker) choose() fault {
	what, some := "c", b.network.controllers
	if b.dice.IntN(5) < 2 {
		what, some = "e", b.network.etcd
	}
	at := b.dice.IntN(len(some))
	one := some[at]
	kinds := []string{"kill", "kill", "pause", "pause", "stop"}
	if b.network.spaces != nil {
		kinds = append(kinds, "cut inside", "cut inside")
		if what == "c" {
			kinds = append(kinds, "cut from clients")
		}
	}
	name := kinds[b.dice.IntN(len(kinds))]
	f := fault{name: name, target: one.name, long: 200*time.Millisecond + b.millis(2000)}
	switch name {
	case "kill", "stop":
		by := syscall.SIGKILL
		if name == "stop" {
			by = syscall.SIGTERM
		}
		f.do = func() error { one.end(by); return nil }
		f.undo = one.start
	case "pause":
		f.long = time.Second + b.millis(14_000)
		f.do = func() error { one.signal(syscall.SIGSTOP); return nil }
		f.undo = func() error { one.signal(syscall.SIGCONT); return nil }
	default:
		link := innerLink
		if name == "cut from clients" {
			link = outerLink
		}
		f.long = time.Second + b.millis(14_000)
		f.do = func() error { return b.network.spaces.set(link, what, at, "down") }
		f.undo = func() error { return b.network.spaces.set(link, what, at, "up") }
	}
	return f
}

// names are the faults that were done, in order.
func (b *breaker) names() []string {
	var names []string
	for name, count := range b.counts {
		names = append(names, fmt.Sprintf("%s %d", name, count))
	}
	slices.Sort(names)
	return names
}
