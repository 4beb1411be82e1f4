package main

// notThere are operations of the clients that weft does not have.
var notThere = map[string]string{
	"client EnrollToken":                          "key sets of external signers are not fetched",
	"client ListEnumeratedRouterCapabilities":     "newer than what weft describes",
	"management ListEnumeratedRouterCapabilities": "newer than what weft describes",
}

// tryCoverage holds each operation of the generated clients against what the trials have done.
func tryCoverage(r *report, n *network) {
	r.begin("every operation of the clients")
	for _, of := range []struct {
		api       string
		generated any
	}{{management, n.admin}, {client, n.client("")}} {
		for _, operation := range operations(of.generated) {
			name := of.api + " " + operation
			if why, known := notThere[name]; known {
				r.note(name + ": " + why)
				continue
			}
			r.check(name, func() error { return n.calls.happened(of.api, operation) })
		}
	}
}
