// Command client drives one OpenZiti Go SDK against a network for weft's
// interoperability checks. Every subcommand has a deadline, prints one line of
// JSON on stdout and exits 0 only when all of its checks passed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

// result is the one JSON line of a subcommand. Fields that do not apply stay out.
type result struct {
	OK       bool    `json:"ok"`
	Command  string  `json:"command"`
	Error    string  `json:"error,omitempty"`
	Seconds  float64 `json:"seconds"`
	Bytes    int64   `json:"bytes,omitempty"`
	Sha256   string  `json:"sha256,omitempty"`
	Total    int     `json:"total,omitempty"`
	Verified int     `json:"verified,omitempty"`
}

// options are the flags that all subcommands share; each reads what it needs.
type options struct {
	identity, service, out, jwt, path, target string
	n, size, channels, control                int
	flow, halfClose                           bool
	timeout                                   time.Duration
	sha                                       string
}

type command func(context.Context, *options, *result) error

var commands = map[string]command{
	"enroll":    enrollIdentity,
	"fetch":     fetch,
	"storm":     storm,
	"halfclose": halfClose,
	"echo":      hostEcho,
	"host-http": hostTCP,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: client enroll|fetch|storm|halfclose|echo|host-http [flags]")
		os.Exit(2)
	}
	name := os.Args[1]
	var o options
	f := flag.NewFlagSet(name, flag.ExitOnError)
	f.StringVar(&o.jwt, "jwt", "", "enrollment token file")
	f.StringVar(&o.out, "out", "", "identity file to write")
	f.StringVar(&o.identity, "identity", "", "identity file")
	f.StringVar(&o.service, "service", "", "service name")
	f.StringVar(&o.path, "path", "/", "HTTP path to fetch")
	f.StringVar(&o.sha, "sha256", "", "expected SHA-256 of the fetched body (hex)")
	f.StringVar(&o.target, "target", "", "host-http: local TCP address to splice to")
	f.IntVar(&o.n, "n", 200, "storm: concurrent connections")
	f.IntVar(&o.size, "size", 4096, "storm, halfclose: bytes each connection sends")
	f.IntVar(&o.channels, "channels", 1, "data connections to each router (more than 1 turns grouping on)")
	f.IntVar(&o.control, "control-channels", 0, "separate control connections to each router")
	f.BoolVar(&o.flow, "sdk-flow-control", false, "let the SDK do flow control where it can choose")
	f.BoolVar(&o.halfClose, "half-close", true, "storm: half-close before reading to the end; else read what was sent")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "deadline of everything (hosts: how long to serve)")
	_ = f.Parse(os.Args[2:])

	ctx, cancel := context.WithTimeout(context.Background(), o.timeout)
	defer cancel()
	res := result{Command: name}
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- commands[name](ctx, &o, &res) }()
	var err error
	select {
	case err = <-done:
	case <-time.After(o.timeout + 5*time.Second):
		// A call of the SDK that ignores its context may still write to res, so a new result is printed.
		res, err = result{Command: name}, fmt.Errorf("did not finish within %v", o.timeout)
	}
	res.Seconds = time.Since(start).Seconds()
	res.OK = err == nil
	if err != nil {
		res.Error = err.Error()
	}
	line, _ := json.Marshal(res)
	fmt.Println(string(line))
	if err != nil {
		os.Exit(1)
	}
}
