package main

// tryCoverage holds each operation of the generated clients against what the trials have done.
func tryCoverage(r *report, n *network) {
	r.begin("every operation of the clients")
	for _, of := range []struct {
		api       string
		generated any
	}{{management, n.admin}, {client, n.client("")}} {
		for _, operation := range operations(of.generated) {
			r.check(of.api+" "+operation, func() error { return n.calls.happened(of.api, operation) })
		}
	}
}
