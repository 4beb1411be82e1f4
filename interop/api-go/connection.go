package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"time"

	"github.com/go-openapi/runtime"
	httptransport "github.com/go-openapi/runtime/client"
	client_api "github.com/openziti/edge-api/rest_client_api_client"
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_util"
)

// A controller is the address of the APIs and the certificates that are trusted for it.
type controller struct {
	url   *url.URL
	roots *x509.CertPool
	calls *ledger
}

// reach takes the certificates that the controller at address publishes, as the clients'
// own helpers do, and trusts them from then on.
func reach(address string, calls *ledger) (*controller, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	roots, err := rest_util.GetControllerWellKnownCaPool(address)
	if err != nil {
		return nil, err
	}
	return &controller{url: at, roots: roots, calls: calls}, nil
}

// management is the management API for the bearer of token; without a token there is no login.
func (c *controller) management(token string, certificates ...tls.Certificate) *management_api.ZitiEdgeManagement {
	base := management_api.DefaultBasePath
	return management_api.New(c.transport(management, base, token, certificates), nil)
}

// client is the client API for the bearer of token; without a token there is no login.
func (c *controller) client(token string, certificates ...tls.Certificate) *client_api.ZitiEdgeClient {
	return client_api.New(c.transport(client, client_api.DefaultBasePath, token, certificates), nil)
}

// transport is the clients' own transport; its answers are read strictly and its calls are noted.
func (c *controller) transport(api, base, token string, certificates []tls.Certificate) runtime.ClientTransport {
	over := c.over(certificates)
	own := httptransport.NewWithClient(c.url.Host, base, []string{"https"}, over)
	if token != "" {
		own.DefaultAuthentication = &rest_util.ZitiTokenAuth{Token: token}
	}
	reader := &strict{own: own.Consumers[runtime.JSONMime], calls: c.calls}
	own.Consumers[runtime.JSONMime] = reader
	// These answers are not JSON, and every user of the clients has to set their reader.
	own.Consumers["application/jwt"] = runtime.TextConsumer()
	own.Consumers["application/pkcs7-mime"] = runtime.TextConsumer()
	own.Consumers["image/png"] = runtime.ByteStreamConsumer()
	over.Transport = watching{over.Transport, api, reader}
	return noting{own, api, reader}
}

// over is plain HTTP to the controller.
func (c *controller) over(certificates []tls.Certificate) *http.Client {
	settings := &tls.Config{RootCAs: c.roots, Certificates: certificates, MinVersion: tls.VersionTLS12}
	return &http.Client{
		Timeout:   20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true},
	}
}

// watching notes the status of each answer.
type watching struct {
	http.RoundTripper
	api    string
	reader *strict
}

func (w watching) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := w.RoundTripper.RoundTrip(request)
	if err == nil {
		w.reader.calls.answered(w.api, w.reader.operation, answer.StatusCode)
	}
	return answer, err
}

// noting passes calls on and notes those that succeeded.
type noting struct {
	runtime.ClientTransport
	api    string
	reader *strict
}

func (n noting) Submit(operation *runtime.ClientOperation) (any, error) {
	n.reader.operation = operation.ID
	answer, err := n.ClientTransport.Submit(operation)
	if err == nil {
		n.reader.calls.succeeded(n.api, operation.ID)
	}
	return answer, err
}
