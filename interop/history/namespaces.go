package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Each namespace has two links: one to the bridge of controllers and etcd, one to that of clients.
const (
	innerLink = "i"
	outerLink = "o"
)

// namespaces are those of a run; a nil one stands for processes that are all on loopback.
type namespaces struct {
	prefix string
	// The third byte of the addresses, 198.18.N.0/24 within and 198.19.N.0/24 for clients, which are reserved for tests.
	number int
	made   []string
	// The ends of links outside of the namespaces.
	links []string
}

// whyNoNamespaces says what is missing, if anything is.
func whyNoNamespaces() string {
	if os.Geteuid() != 0 {
		return "only root can make them"
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return "there is no program `ip`"
	}
	return ""
}

func newNamespaces() (*namespaces, error) {
	pid := os.Getpid()
	n := &namespaces{prefix: fmt.Sprintf("wh%d", pid%100000), number: 1 + pid%250}
	for link, third := range map[string]string{innerLink: "198.18", outerLink: "198.19"} {
		bridge := n.bridge(link)
		if _, err := tool("ip", "link", "add", bridge, "type", "bridge"); err != nil {
			return n, err
		}
		address := fmt.Sprintf("%s.%d.254/24", third, n.number)
		// Only clients are at this end.
		if link == outerLink {
			if _, err := tool("ip", "address", "add", address, "dev", bridge); err != nil {
				return n, err
			}
		}
		if _, err := tool("ip", "link", "set", bridge, "up"); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (n *namespaces) bridge(link string) string { return n.prefix + link }

// name is the namespace of a controller (`c`) or a member of etcd (`e`).
func (n *namespaces) name(what string, at int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s%s%d", n.prefix, what, at+1)
}

func (n *namespaces) address(link, what string, at int) string {
	if n == nil {
		return "127.0.0.1"
	}
	network, host := "198.18", at+1
	if link == outerLink {
		network = "198.19"
	}
	if what == "e" {
		host += 10
	}
	return fmt.Sprintf("%s.%d.%d", network, n.number, host)
}

// add makes a namespace with its links.
func (n *namespaces) add(what string, at int) error {
	if n == nil {
		return nil
	}
	space := n.name(what, at)
	if _, err := tool("ip", "netns", "add", space); err != nil {
		return err
	}
	n.made = append(n.made, space)
	links := []string{innerLink}
	if what == "c" {
		links = append(links, outerLink)
	}
	commands := []string{"ip -n " + space + " link set lo up"}
	for _, link := range links {
		outside := space + link
		n.links = append(n.links, outside)
		commands = append(commands,
			fmt.Sprintf("ip link add %s type veth peer name %s netns %s", outside, link, space),
			fmt.Sprintf("ip link set %s master %s up", outside, n.bridge(link)),
			fmt.Sprintf("ip -n %s address add %s/24 dev %s", space, n.address(link, what, at), link),
			fmt.Sprintf("ip -n %s link set %s up", space, link),
		)
	}
	for _, command := range commands {
		if _, err := tool(strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}

// set cuts or joins the link of a namespace, as somebody who pulls its cable at the switch.
func (n *namespaces) set(link, what string, at int, state string) error {
	_, err := tool("ip", "link", "set", n.name(what, at)+link, state)
	return err
}

// remove takes everything back.
func (n *namespaces) remove() {
	if n == nil {
		return
	}
	for _, space := range n.made {
		_, _ = tool("ip", "netns", "delete", space)
	}
	// A link ends with its namespace, but some time later.
	for _, link := range append(n.links, n.bridge(innerLink), n.bridge(outerLink)) {
		_, _ = tool("ip", "link", "delete", link)
	}
}
