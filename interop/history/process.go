package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// A process is a controller or a member of etcd, which can be killed, frozen and started again.
type process struct {
	name    string
	command []string
	log     string
	// The network namespace it lives in, if any.
	namespace string
	// Variables of its environment, at each start.
	environment func() []string

	lock    sync.Mutex
	running *exec.Cmd
	ended   chan struct{}
	// Whether this program ended it.
	isWanted bool
	// Called when the process ends by itself.
	died func(*process, error)
}

func (p *process) start() error {
	p.lock.Lock()
	defer p.lock.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	words := p.command
	if p.namespace != "" {
		words = append([]string{"ip", "netns", "exec", p.namespace}, words...)
	}
	run := exec.Command(words[0], words[1:]...)
	run.Stdout, run.Stderr = log, log
	// Ctrl-C at the terminal is for this program alone, and nothing outlives it.
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	run.Env = os.Environ()
	if p.environment != nil {
		run.Env = append(run.Env, p.environment()...)
	}
	if err := run.Start(); err != nil {
		return fmt.Errorf("%s does not start: %w", p.name, err)
	}
	ended := make(chan struct{})
	p.running, p.ended, p.isWanted = run, ended, false
	go func() {
		err := run.Wait()
		p.lock.Lock()
		byItself := !p.isWanted
		p.lock.Unlock()
		close(ended)
		if byItself && p.died != nil {
			p.died(p, err)
		}
	}()
	return nil
}

// end sends a signal that ends the process, and waits until it has.
func (p *process) end(by syscall.Signal) {
	p.lock.Lock()
	p.isWanted = true
	running, ended := p.running, p.ended
	p.lock.Unlock()
	if running == nil {
		return
	}
	// A frozen one takes the signal only once it goes on.
	_ = running.Process.Signal(by)
	_ = running.Process.Signal(syscall.SIGCONT)
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		_ = running.Process.Kill()
		<-ended
	}
}

func (p *process) signal(which syscall.Signal) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.running != nil {
		_ = p.running.Process.Signal(which)
	}
}

// tool runs a program to its end, and has its words in the error.
func tool(words ...string) ([]byte, error) {
	run := exec.Command(words[0], words[1:]...)
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	text, err := run.CombinedOutput()
	if err != nil {
		return text, errors.Join(fmt.Errorf("%v: %s", words, text), err)
	}
	return text, nil
}
