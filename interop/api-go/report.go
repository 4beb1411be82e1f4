package main

import (
	"fmt"
	"io"
	"time"
)

// A report has the checks of a run, by area.
type report struct {
	out   io.Writer
	all   bool
	areas []area
}

// An area is the subject of the checks in one row of the table.
type area struct {
	name   string
	checks int
	failed []string
	begun  time.Time
}

// begin starts the row for name; it ends the one before.
func (r *report) begin(name string) {
	r.end()
	r.areas = append(r.areas, area{name: name, begun: time.Now()})
}

// end prints the row that was begun last.
func (r *report) end() {
	if len(r.areas) == 0 {
		return
	}
	row := &r.areas[len(r.areas)-1]
	if row.begun.IsZero() {
		return
	}
	verdict := "PASS"
	if row.failed != nil {
		verdict = "FAIL"
	}
	passed := row.checks - len(row.failed)
	fmt.Fprintf(r.out, "%-34s %s %4d of %-4d %6.2f s\n", row.name, verdict, passed, row.checks, time.Since(row.begun).Seconds())
	for _, failed := range row.failed {
		fmt.Fprintf(r.out, "    %s\n", failed)
	}
	row.begun = time.Time{}
}

// check runs one step; a panic, by which a generated client reports an unexpected
// answer, is a failure like an error. It tells whether the step passed.
func (r *report) check(what string, step func() error) (passed bool) {
	row := &r.areas[len(r.areas)-1]
	row.checks++
	defer func() {
		if fault := recover(); fault != nil {
			row.failed = append(row.failed, fmt.Sprintf("%s: panic: %v", what, fault))
		}
	}()
	err := step()
	if err != nil {
		row.failed = append(row.failed, fmt.Sprintf("%s: %s", what, describe(err)))
	}
	if r.all {
		fmt.Fprintf(r.out, "  %-60s %t\n", what, err == nil)
	}
	return err == nil
}

// summary prints the totals and tells whether everything passed.
func (r *report) summary() bool {
	r.end()
	passed, failed := 0, 0
	for _, row := range r.areas {
		failed += len(row.failed)
		passed += row.checks - len(row.failed)
	}
	fmt.Fprintf(r.out, "%d passed, %d failed\n", passed, failed)
	return failed == 0
}
