// Command api-go tries the HTTP APIs of a controller with the API clients that are generated
// from the original's descriptions (github.com/openziti/edge-api). Every answer is decoded by
// their models, checked against the models, and compared with what was sent.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/openziti/edge-api/rest_util"
)

// A section has one row of the table, or several.
type section struct {
	name string
	run  func(*report, *network)
}

var sections = []section{
	{"services", tryServices},
	{"config-types", tryConfigTypes},
	{"configs", tryConfigs},
	{"service-policies", tryServicePolicies},
	{"edge-router-policies", tryEdgeRouterPolicies},
	{"service-edge-router-policies", tryServiceEdgeRouterPolicies},
	{"edge-routers", tryEdgeRouters},
	{"routers", tryRouters},
	{"terminators", tryTerminators},
	{"identities", tryIdentities},
	{"posture-checks", tryPostureChecks},
	{"auth-policies", tryAuthPolicies},
	{"authenticators", tryAuthenticators},
	{"external-jwt-signers", tryExternalJWTSigners},
	{"cas", tryCas},
	{"lists", tryLists},
	{"identity-operations", tryIdentityOperations},
	{"enrollments", tryEnrollments},
	{"information", tryInformation},
	{"types", tryTypes},
	{"role-attributes", tryRoleAttributes},
	{"database", tryDatabase},
	{"revocations", tryRevocations},
	{"controller-settings", trySettings},
	{"enrolling", tryEnrolling},
	{"client", tryClientAPI},
	{"mfa", tryMFA},
	{"own-authenticators", tryOwnAuthenticators},
	{"posture-data", tryPostureData},
	{"api-sessions", tryAPISessions},
}

func main() {
	address := flag.String("url", "", "the controller, https://host:port")
	username := flag.String("username", "admin", "an administrator; WEFT_PASSWORD has the password")
	only := flag.String("only", "", "sections to run, with commas between them: "+strings.Join(names(), ", "))
	all := flag.Bool("all", false, "print every check")
	extra := flag.Bool("extra", false, "print the members of answers that the clients do not know")
	flag.Parse()
	chosen, err := choose(*only)
	if err != nil {
		fmt.Fprintf(os.Stderr, "api-go: %s\n", err)
		os.Exit(2)
	}

	calls := newLedger()
	r := &report{out: os.Stdout, all: *all}
	n, err := login(*address, *username, os.Getenv("WEFT_PASSWORD"), calls)
	if err != nil {
		fmt.Fprintf(os.Stderr, "api-go: %s: %s\n", *address, describe(err))
		os.Exit(1)
	}
	for _, one := range chosen {
		guard(r, n, one.name, one.run)
	}
	r.begin("clean-up")
	r.check("delete what the run made", n.remove)
	if *only == "" {
		tryCoverage(r, n)
		tryOwnDescription(r, n)
	}
	held := r.summary()
	if *extra {
		fmt.Println("not known to the clients:", strings.Join(calls.extra(), " "))
	}
	if !held {
		os.Exit(1)
	}
}

// choose returns the sections with these names; without names, all sections.
func choose(only string) ([]section, error) {
	if only == "" {
		return sections, nil
	}
	var chosen []section
	for _, name := range strings.Split(only, ",") {
		at := slices.IndexFunc(sections, func(one section) bool { return one.name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no %s; there are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, sections[at])
	}
	return chosen, nil
}

func names() []string {
	var names []string
	for _, one := range sections {
		names = append(names, one.name)
	}
	return names
}

// guard runs a section; if an entity that the section needs cannot be made, the section fails.
func guard(r *report, n *network, name string, run func(*report, *network)) {
	defer func() {
		if fault := recover(); fault != nil {
			r.begin(name + " (not tried)")
			r.check("prepare", func() error { return fmt.Errorf("%v", fault) })
		}
	}()
	run(r, n)
}

// login is the network for an administrator, who logs in the way the clients' own helper does.
func login(address, username, password string, calls *ledger) (*network, error) {
	c, err := reach(address, calls)
	if err != nil {
		return nil, err
	}
	updb := rest_util.NewAuthenticatorUpdb(username, password)
	updb.RootCas = c.roots
	session, err := updb.Authenticate(&url.URL{Scheme: "https", Host: c.url.Host})
	if err != nil {
		return nil, err
	}
	mark := make([]byte, 3)
	if _, err := rand.Read(mark); err != nil {
		return nil, err
	}
	return &network{
		controller: c,
		admin:      c.management(*session.Token),
		nobody:     c.management(""),
		prefix:     "gen" + hex.EncodeToString(mark),
	}, nil
}
