package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const password = "a-password-of-the-test"

// A network is the etcd and the controllers of a run.
type network struct {
	home        string
	weft        string
	etcd        []*process
	controllers []*process
	urls        []string
	roots       *x509.CertPool
	// Where processes live in namespaces of their own.
	spaces *namespaces
	clock  *clock
}

func controllerName(at int) string { return fmt.Sprintf("c%d", at+1) }

// freePorts returns ports that are free now.
func freePorts(count int) ([]int, error) {
	var ports []int
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// All stay open until the last one is chosen.
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// build makes the network and starts it.
func (n *network) build(etcd string, members int, died func(*process, error)) error {
	ports, err := freePorts(2*members + controllers)
	if err != nil {
		return err
	}
	clientURL := func(at int) string {
		return "http://" + n.inner("e", at) + fmt.Sprintf(":%d", ports[2*at])
	}
	peerURL := func(at int) string {
		return "http://" + n.inner("e", at) + fmt.Sprintf(":%d", ports[2*at+1])
	}
	var cluster, etcdFlags []string
	for at := range members {
		cluster = append(cluster, fmt.Sprintf("e%d=%s", at+1, peerURL(at)))
		etcdFlags = append(etcdFlags, "--etcd", clientURL(at))
	}
	for at := range members {
		name := fmt.Sprintf("e%d", at+1)
		member := &process{
			name: "etcd " + name, log: filepath.Join(n.home, name+".log"), died: died,
			namespace: n.spaces.name("e", at),
			command: []string{
				etcd, "--name", name, "--data-dir", filepath.Join(n.home, name), "--logger", "zap",
				"--listen-client-urls", clientURL(at), "--advertise-client-urls", clientURL(at),
				"--listen-peer-urls", peerURL(at), "--initial-advertise-peer-urls", peerURL(at),
				"--initial-cluster", strings.Join(cluster, ","),
				"--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1h",
			},
		}
		n.etcd = append(n.etcd, member)
		if err := n.spaces.add("e", at); err != nil {
			return err
		}
		if err := member.start(); err != nil {
			return err
		}
	}
	for at := range controllers {
		if err := n.addController(at, ports[2*members+at], etcdFlags, died); err != nil {
			return err
		}
	}
	return nil
}

// addController makes the folder of a controller and starts it.
func (n *network) addController(at, port int, etcdFlags []string, died func(*process, error)) error {
	name, home := controllerName(at), filepath.Join(n.home, controllerName(at))
	file := filepath.Join(home, "controller.yaml")
	if err := n.spaces.add("c", at); err != nil {
		return err
	}
	words := []string{
		n.weft, "controller", "config", "--home", home, "--address", n.outer(at), "--port", fmt.Sprint(port), "--name", name,
	}
	if at == 0 {
		words = append(words, etcdFlags...)
	} else {
		words = append(words, "--member-of", filepath.Join(n.home, controllerName(0)))
	}
	if _, err := tool(words...); err != nil {
		return err
	}
	one := &process{
		name: "controller " + name, log: filepath.Join(n.home, name+".log"), died: died,
		namespace: n.spaces.name("c", at), command: []string{n.weft, "controller", "run", file},
	}
	if n.clock != nil && at == controllers-1 {
		one.environment = n.clock.environment
	}
	n.controllers = append(n.controllers, one)
	n.urls = append(n.urls, fmt.Sprintf("https://%s:%d", n.outer(at), port))
	if at == 0 {
		if err := n.initialise(file, home); err != nil {
			return err
		}
	}
	return one.start()
}

// initialise makes the administrator once etcd answers. The command runs where the controller will.
func (n *network) initialise(file, home string) error {
	text, err := os.ReadFile(filepath.Join(home, "pki", "root.crt"))
	if err != nil {
		return err
	}
	n.roots = x509.NewCertPool()
	if !n.roots.AppendCertsFromPEM(text) {
		return errors.New("the network's root cannot be read")
	}
	words := []string{n.weft, "controller", "init", file, "--password", password}
	if space := n.spaces.name("c", 0); space != "" {
		words = append([]string{"ip", "netns", "exec", space}, words...)
	}
	for tries := 0; ; tries++ {
		if _, err = tool(words...); err == nil || tries == 20 {
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// await waits until all controllers take changes.
func (n *network) await(ctx context.Context, long time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	asker := newCaller(n.urls, n.roots)
	for at := 0; at < controllers; {
		a := asker.call(ctx, at, http.MethodGet, "/health-checks/controller/raft", nil)
		if a.status == http.StatusOK {
			at++
			continue
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s takes no changes: status %d, %v", controllerName(at), a.status, a.err)
		}
		pause(ctx, 200*time.Millisecond)
	}
	return nil
}

// outer is the address at which clients reach a controller.
func (n *network) outer(at int) string { return n.spaces.address(outerLink, "c", at) }

// inner is the address at which controllers and members of etcd reach each other.
func (n *network) inner(what string, at int) string { return n.spaces.address(innerLink, what, at) }

// stop ends all processes, controllers first.
func (n *network) stop() {
	for _, some := range [][]*process{n.controllers, n.etcd} {
		done := make(chan struct{})
		for _, one := range some {
			go func() {
				one.end(syscall.SIGKILL)
				done <- struct{}{}
			}()
		}
		for range some {
			<-done
		}
	}
	n.spaces.remove()
}
