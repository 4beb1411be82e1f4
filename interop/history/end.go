package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Longest time until a network is well after the last fault.
const healing = 30 * time.Second

// heal waits until each controller says by `weft cluster status` that everything is well, and returns how long it took.
func (n *network) heal() (time.Duration, error) {
	if n.clock != nil {
		// A clock that is wrong on purpose is no fault of the network.
		n.clock.correct()
		last := n.controllers[len(n.controllers)-1]
		last.end(syscall.SIGTERM)
		if err := last.start(); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	waiting := make([]bool, controllers)
	for {
		var last error
		for at := range waiting {
			if !waiting[at] {
				err := n.status(at)
				waiting[at] = err == nil
				last = errors.Join(last, err)
			}
		}
		switch {
		case last == nil:
			return time.Since(began), nil
		case time.Since(began) > healing:
			return healing, fmt.Errorf("not well %v after the last fault: %w", healing, last)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// status asks one controller, with a login of its own.
func (n *network) status(at int) error {
	name, folder := controllerName(at), filepath.Join(n.home, "logins")
	if _, err := os.Stat(filepath.Join(folder, name+".made")); err != nil {
		root := filepath.Join(n.home, controllerName(0), "pki", "root.crt")
		if _, err := tool(
			n.weft, "login", n.urls[at], "--username", "admin", "--password", password, "--ca", root, "--name", name,
			"--config-dir", folder,
		); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name+".made"), nil, 0o600); err != nil {
			return err
		}
	}
	_, err := tool(n.weft, "cluster", "status", "--login", name, "--config-dir", folder)
	return err
}

// all reads every service of the test at one controller: by which event each was made or last written.
func (n *network) all(ctx context.Context, asker *caller, at int) (map[string]int, error) {
	seen := map[string]int{}
	for _, text := range []string{"register-", uniquePrefix, contendedPrefix} {
		list, a := asker.services(ctx, at, text)
		if a.outcome() != done {
			return nil, fmt.Errorf("%s lists nothing: %d %s %s %v", controllerName(at), a.status, a.code, a.cause, a.err)
		}
		for name, number := range bearers(list) {
			seen[name] = number
		}
	}
	return seen, nil
}

// panics finds what programs must not write into their logs.
func (n *network) panics() []string {
	var found []string
	for _, one := range n.controllers {
		text, err := os.ReadFile(one.log)
		if err != nil {
			found = append(found, err.Error())
		}
		for at, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, "panicked") || strings.Contains(line, "the writer ended in a fault") {
				found = append(found, one.log+":"+strconv.Itoa(at+1)+": "+line)
			}
		}
	}
	return found
}
