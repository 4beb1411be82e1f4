package main

import (
	"crypto/tls"
	"errors"
	"fmt"

	client_api "github.com/openziti/edge-api/rest_client_api_client"
	"github.com/openziti/edge-api/rest_client_api_client/authentication"
	"github.com/openziti/edge-api/rest_client_api_client/enroll"
	"github.com/openziti/edge-api/rest_management_api_client/identity"
	"github.com/openziti/edge-api/rest_model"
)

// The password of every member that has one.
const password = "a good password"

// A member is an identity of the run that uses the client API.
type member struct {
	n       *network
	id      string
	name    string
	keys    []tls.Certificate
	session *rest_model.CurrentAPISessionDetail
	api     *client_api.ZitiEdgeClient
}

// member is a new identity that may log in by password.
func (n *network) member(name string) *member {
	m := &member{n: n, id: n.identity(name), name: n.name("for-" + name)}
	keep(n, authenticators(n.admin), &rest_model.AuthenticatorCreate{
		IdentityID: &m.id, Method: ptr("updb"), Username: m.name, Password: password,
	})
	return m
}

// device is a new identity that has enrolled by token, and may log in with its certificate.
func (n *network) device(name string) (*member, error) {
	id := keep(n, identities(n.admin), &rest_model.IdentityCreate{
		Name: ptr(n.name("for-" + name)), Type: ptr(rest_model.IdentityTypeDevice), IsAdmin: ptr(false),
		Enrollment: &rest_model.IdentityCreateEnrollment{Ott: true}, RoleAttributes: n.attributes("for-" + name),
	})
	m := &member{n: n, id: id, name: n.name("for-" + name)}
	answer, err := n.admin.Identity.DetailIdentity(identity.NewDetailIdentityParams().WithID(id), nil)
	if err != nil {
		return nil, err
	}
	token := answer.Payload.Data.Enrollment.Ott
	if token == nil || token.JWT == "" {
		return nil, errors.New("there is no enrollment")
	}
	key := newKey()
	body := &rest_model.OttEnrollmentRequest{Token: token.Token, ClientCsr: request(m.name, key)}
	enrolled, err := n.client("").Enroll.EnrollOtt(enroll.NewEnrollOttParams().WithOttEnrollmentRequest(body))
	if err != nil {
		return nil, err
	}
	m.keys = []tls.Certificate{pair(enrolled.Payload.Data.Cert, key)}
	return m, nil
}

// login opens an API session; with its certificate if the member has one.
func (m *member) login() error {
	body := &rest_model.Authenticate{
		ConfigTypes: rest_model.ConfigTypes{"host.v1"},
		EnvInfo:     &rest_model.EnvInfo{Arch: "amd64", Hostname: "here", Os: "Linux", OsRelease: "6.1", OsVersion: "1"},
		SdkInfo:     &rest_model.SdkInfo{AppID: "generated", AppVersion: "1", Type: "api-go", Version: "v1.0.0"},
	}
	method := "cert"
	if m.keys == nil {
		method, body.Username, body.Password = "password", rest_model.Username(m.name), password
	}
	asked := authentication.NewAuthenticateParams().WithMethod(method).WithAuth(body)
	answer, err := m.n.client("", m.keys...).Authentication.Authenticate(asked)
	if err != nil {
		return err
	}
	m.session = answer.Payload.Data
	m.api = m.n.client(*m.session.Token, m.keys...)
	if *m.session.IdentityID != m.id || m.session.Identity.ID != m.id {
		return fmt.Errorf("the session is of %s, not %s", *m.session.IdentityID, m.id)
	}
	return nil
}
