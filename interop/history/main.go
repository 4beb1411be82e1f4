// Command history runs several controllers of one network, has clients change and read it while processes are killed
// and frozen and links are cut, and holds every answer against what must be true of all of them together.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const help = `Runs three controllers that share a network in etcd, and ten clients that use the management API and documents
(/weft/v1) at all of them, while controllers and members of etcd are killed, stopped and frozen. Then everything is
mended, and every answer is held against what must be true: a change that was acknowledged is there, one that was not
made is nowhere, one without an answer was made once or never, changes have one order, and so on.

  WEFT_BIN     program of weft (default: weft on the PATH)
  WEFT_ETCD    program of etcd (default: etcd on the PATH)

Five services are registers: the value of one is the number of the operation that wrote it. An answer to a document
tells the revision that it made, and what it found; a plan tells the registers at a revision. With these, what is
acknowledged without a revision is put between revisions by the clock. A client hands its knowledge on to another
controller by asking that one for its revision until it is high enough. A fresh read first has the controller ask etcd
for the head.

A failure prints the rule, the operations that break it, and the seed, and keeps the folder: the logs, faults.txt, and
history.jsonl with all operations. A seed gives the same faults and choices, but not the same timing, so that a failure
may need several runs to come again.

  history                                           a minute, with one member of etcd
  history --seed 7 --members 3                      three members
  history --minutes 10 --operations 60000 --members 3 --namespaces --clock-jumps
                                                    as root: everything

`

type settings struct {
	seed       uint64
	minutes    float64
	operations int
	members    int
	namespaces bool
	clockJumps bool
	keep       bool
}

func main() {
	var s settings
	flag.Uint64Var(&s.seed, "seed", 0, "seed of faults and choices (default: one that is drawn)")
	flag.Float64Var(&s.minutes, "minutes", 1, "how long operations are made and things break")
	flag.IntVar(&s.operations, "operations", 10_000, "number of operations, spread over that time")
	flag.IntVar(&s.members, "members", 1, "members of etcd: 1 or 3")
	flag.BoolVar(&s.namespaces, "namespaces", false,
		"cut links, too: each process is in a network namespace (needs root and the program ip)")
	flag.BoolVar(&s.clockJumps, "clock-jumps", false,
		"the clock of the last controller jumps by up to 5 s at each start (needs libfaketime)")
	flag.BoolVar(&s.keep, "keep", false, "keep the folder with logs and history also after a success")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), help)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 || (s.members != 1 && s.members != 3) || s.minutes <= 0 || s.operations <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	if s.seed == 0 {
		s.seed = 1 + rand.Uint64N(1_000_000)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	isRight, err := run(ctx, &s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "history:", err)
		fmt.Fprintf(os.Stderr, "history: seed %d\n", s.seed)
	}
	if err != nil || !isRight {
		os.Exit(1)
	}
}

// program finds what a variable names, or what is on the PATH.
func program(variable, name string) (string, error) {
	if value := os.Getenv(variable); value != "" {
		name = value
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %s can name the program", err, variable)
	}
	return filepath.Abs(found)
}

func run(ctx context.Context, s *settings) (isRight bool, err error) {
	weft, err := program("WEFT_BIN", "weft")
	if err != nil {
		return false, err
	}
	etcd, err := program("WEFT_ETCD", "etcd")
	if err != nil {
		return false, err
	}
	home, err := os.MkdirTemp("", "weft-history-")
	if err != nil {
		return false, err
	}
	defer func() {
		if isRight && !s.keep {
			_ = os.RemoveAll(home)
		} else {
			fmt.Printf("kept: %s\n", home)
		}
	}()
	n := &network{home: home, weft: weft}
	defer func() { n.stop() }()
	if err := n.prepare(s); err != nil {
		return false, err
	}
	fmt.Printf("seed %d, %d operations in %g min, %d of etcd\n", s.seed, s.operations, s.minutes, s.members)
	h := newHistory()
	died := func(one *process, err error) {
		h.trouble(fmt.Sprintf("%s ended by itself: %v; see %s", one.name, err, one.log))
	}
	if err := n.build(etcd, s.members, died); err != nil {
		return false, err
	}
	if err := n.await(ctx, healing); err != nil {
		return false, err
	}
	return measure(ctx, s, n, h)
}

// prepare makes namespaces and finds the clock, or says what is skipped.
func (n *network) prepare(s *settings) (err error) {
	if why := whyNoNamespaces(); s.namespaces && why != "" {
		fmt.Println("SKIPPED: no links are cut, since namespaces cannot be made:", why)
	} else if s.namespaces {
		if n.spaces, err = newNamespaces(); err != nil {
			return err
		}
	}
	if s.clockJumps {
		if n.clock = findClock(rand.New(rand.NewPCG(s.seed, 1))); n.clock == nil {
			fmt.Println("SKIPPED: no clock jumps, since libfaketime is not installed")
		}
	}
	return nil
}

// measure makes the history and judges it.
func measure(ctx context.Context, s *settings, n *network, h *history) (bool, error) {
	all, err := enter(ctx, s, n, h)
	if err != nil {
		return false, err
	}
	b := &breaker{
		network: n, history: h, dice: rand.New(rand.NewPCG(s.seed, 0)), counts: map[string]int{}, busy: map[string]bool{},
	}
	long := time.Duration(s.minutes * float64(time.Minute))
	working, rest := context.WithTimeout(ctx, long)
	defer rest()
	tickets := make(chan struct{}, clients)
	var running sync.WaitGroup
	for _, one := range all {
		running.Go(func() { one.run(ctx, tickets) })
	}
	running.Go(func() { b.run(working) })
	hand(working, tickets, s.operations, long)
	running.Wait()
	if ctx.Err() != nil {
		return false, errors.New("interrupted")
	}

	all[0].patience = mostPatience
	took, unwell := n.heal()
	final, unlike := settled(func(at int) (map[string]int, error) { return n.all(ctx, all[0].caller, at) }, healing)
	for _, line := range n.panics() {
		h.trouble(line)
	}
	v := newEvidence(h)
	v.final = final
	table(os.Stdout, v.events)
	fmt.Println("faults:", b.names())
	isRight := true
	if err := errors.Join(unwell, unlike); err != nil {
		isRight = false
		fmt.Println("FAILED  the network is well at the end, and the same everywhere\n       ", err)
	} else {
		fmt.Printf("ok      the network was well %.1f s after the last fault, with %d services, the same everywhere\n",
			took.Seconds(), len(final[0]))
	}
	if unlike != nil {
		// What differs is said already; the other rules are about the operations alone.
		v.final = nil
	}
	isRight = judge(os.Stdout, v) && isRight
	if !isRight || s.keep {
		err = keep(n.home, v, b.told)
	}
	if !isRight {
		fmt.Printf("FAILED with seed %d\n", s.seed)
	}
	return isRight, err
}

// enter makes the registers and logs all clients in.
func enter(ctx context.Context, s *settings, n *network, h *history) ([]*client, error) {
	known := &shared{holders: map[string]created{}, registers: map[string]string{}}
	var all []*client
	for number := range clients {
		one := &client{
			caller: newCaller(n.urls, n.roots), at: number % controllers, number: number, history: h, shared: known,
			dice: rand.New(rand.NewPCG(s.seed, uint64(number)+2)),
		}
		if err := one.login(ctx, one.at, password); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	for at := range registers {
		made, err := all[0].makeRegister(ctx, at)
		if err != nil {
			return nil, err
		}
		known.registers[registerName(at)] = made
	}
	read := func(at int) (map[string]int, error) { return n.all(ctx, all[0].caller, at) }
	if _, err := settled(read, healing); err != nil {
		return nil, err
	}
	// The first values are the numbers before those of all operations.
	h.next.Store(registers)
	return all, nil
}

// hand gives clients a ticket for each operation, spread over the time.
func hand(ctx context.Context, tickets chan<- struct{}, operations int, long time.Duration) {
	defer close(tickets)
	began := time.Now()
	for number := range operations {
		due := began.Add(time.Duration(float64(long) * float64(number) / float64(operations)))
		pause(ctx, time.Until(due))
		select {
		case <-ctx.Done():
			return
		case tickets <- struct{}{}:
		}
	}
}
