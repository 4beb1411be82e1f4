package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// table prints how many operations of each kind had which outcome.
func table(to io.Writer, events []*event) {
	outcomes := []outcome{done, refused, notDone, unknown, notSent, failed}
	counts := map[kind]map[outcome]int{}
	var kinds []kind
	for _, e := range events {
		if counts[e.Kind] == nil {
			counts[e.Kind] = map[outcome]int{}
			kinds = append(kinds, e.Kind)
		}
		counts[e.Kind][e.Outcome]++
	}
	slices.Sort(kinds)
	fmt.Fprintf(to, "%-18s", "operation")
	for _, one := range outcomes {
		fmt.Fprintf(to, " %11s", one)
	}
	fmt.Fprintln(to)
	for _, what := range kinds {
		fmt.Fprintf(to, "%-18s", what)
		for _, one := range outcomes {
			fmt.Fprintf(to, " %11d", counts[what][one])
		}
		fmt.Fprintln(to)
	}
}

// judge runs all checks, prints a line for each, and returns whether all hold.
func judge(to io.Writer, v *evidence) bool {
	isRight := true
	for _, one := range checks {
		failure := one.run(v)
		if failure == "" {
			fmt.Fprintf(to, "ok      %s\n", one.name)
			continue
		}
		isRight = false
		fmt.Fprintf(to, "FAILED  %s\n        %s\n", one.name, strings.ReplaceAll(failure, "\n", "\n        "))
	}
	return isRight
}

// keep writes all events and faults beside the logs.
func keep(home string, v *evidence, faults []string) error {
	file, err := os.Create(filepath.Join(home, "history.jsonl"))
	if err != nil {
		return err
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	for _, e := range v.events {
		if err := lines.Encode(e); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(home, "faults.txt"), []byte(strings.Join(faults, "\n")+"\n"), 0o600)
}
