package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

const management = "/edge/management/v1"

// A caller has a session, and connections of its own to each controller.
type caller struct {
	urls  []string
	http  *http.Client
	token string
	// How long it waits for an answer.
	patience time.Duration
}

// Longer than the controllers' limit for a request, so that they are heard out.
const mostPatience = 14 * time.Second

func newCaller(urls []string, roots *x509.CertPool) *caller {
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	return &caller{urls: urls, patience: mostPatience, http: &http.Client{
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			TLSClientConfig:     &tls.Config{RootCAs: roots},
			TLSHandshakeTimeout: 4 * time.Second,
			MaxIdleConnsPerHost: 2,
			IdleConnTimeout:     3 * time.Second,
		},
	}}
}

// An answer of a controller, or none.
type answer struct {
	status int
	code   string
	cause  string
	field  string
	data   json.RawMessage
	// Why there is no answer, and whether the request may have left.
	err  error
	sent bool
}

// outcome says what the answer means for the one who asked.
func (a *answer) outcome() outcome {
	switch {
	case a.err != nil && !a.sent:
		return notSent
	case a.err != nil:
		return unknown
	case a.status == http.StatusOK || a.status == http.StatusCreated:
		return done
	case a.status == http.StatusServiceUnavailable && a.code == "OUTCOME_UNKNOWN":
		return unknown
	case a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests:
		return notDone
	case a.status == http.StatusBadRequest, a.status == http.StatusNotFound, a.status == http.StatusConflict:
		return refused
	}
	return failed
}

// tell writes the answer to an event, and returns whether it was done.
func (a *answer) tell(e *event) bool {
	e.Outcome, e.Status, e.Code, e.Cause = a.outcome(), a.status, a.code, a.cause
	if a.err != nil {
		e.Cause = a.err.Error()
	}
	return e.Outcome == done
}

// call sends one request, which is never sent twice.
func (c *caller) call(ctx context.Context, controller int, method, path string, body any) *answer {
	var sent atomic.Bool
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.urls[controller]+path, bytes.NewReader(text))
	if err != nil {
		return &answer{err: err}
	}
	request.Header.Set("content-type", "application/json")
	if c.token != "" {
		request.Header.Set("zt-session", c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return &answer{err: err, sent: sent.Load()}
	}
	defer response.Body.Close()
	var envelope struct {
		Data  json.RawMessage
		Error struct {
			Code    string
			Message string
			Cause   struct{ Message, Reason, Field string }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&envelope); err != nil {
		return &answer{status: response.StatusCode, err: fmt.Errorf("the answer cannot be read: %w", err), sent: true}
	}
	failure := envelope.Error
	cause := failure.Cause.Message + failure.Cause.Reason
	if cause == "" {
		cause = failure.Message
	}
	return &answer{
		status: response.StatusCode, code: failure.Code, cause: cause, field: failure.Cause.Field, data: envelope.Data,
	}
}

func (c *caller) login(ctx context.Context, controller int, password string) error {
	c.token = ""
	body := map[string]string{"username": "admin", "password": password}
	a := c.call(ctx, controller, http.MethodPost, management+"/authenticate?method=password", body)
	if a.err != nil {
		return a.err
	}
	var session struct{ Token string }
	if err := json.Unmarshal(a.data, &session); err != nil || session.Token == "" {
		return errors.Join(fmt.Errorf("login: status %d %s %s", a.status, a.code, a.cause), err)
	}
	c.token = session.Token
	return nil
}

// A service as lists and details show it.
type service struct {
	ID                string
	Name              string
	MaxIdleTimeMillis int
	Tags              map[string]string
}

func servicesPath(filter string, offset, limit int) string {
	query := url.Values{
		"filter": {filter}, "limit": {fmt.Sprint(limit)}, "offset": {fmt.Sprint(offset)}, "sort": {"id"},
	}
	return management + "/services?" + query.Encode()
}

// A plan is what a document changed, or would change.
type plan struct {
	Revision int64
	Changes  []struct {
		Action string
		Name   string
		Fields []struct {
			Field  string
			Before json.RawMessage
		}
	}
}

// before returns the values that registers had before the plan. They were written together with a tag, which has to
// agree.
func (p *plan) before() (map[string]int, error) {
	values := map[string]int{}
	for _, change := range p.Changes {
		var value int
		var tags struct {
			By string
		}
		for _, field := range change.Fields {
			var err error
			switch field.Field {
			case "maxIdleTimeMillis":
				err = json.Unmarshal(field.Before, &value)
			case "tags.by":
				err = json.Unmarshal(field.Before, &tags.By)
			case "tags":
				err = json.Unmarshal(field.Before, &tags)
			}
			if err != nil {
				return nil, fmt.Errorf("the plan of %s cannot be read: %w", change.Name, err)
			}
		}
		if fmt.Sprint(value) != tags.By {
			return nil, fmt.Errorf("%s has the value %d and the tag %q, which were written together", change.Name, value, tags.By)
		}
		values[change.Name] = value
	}
	return values, nil
}
