package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	client_session "github.com/openziti/edge-api/rest_client_api_client/current_api_session"
	"github.com/openziti/edge-api/rest_management_api_client/authenticator"
	management_session "github.com/openziti/edge-api/rest_management_api_client/current_api_session"
	"github.com/openziti/edge-api/rest_management_api_client/enrollment"
	"github.com/openziti/edge-api/rest_management_api_client/identity"
	"github.com/openziti/edge-api/rest_model"
)

// own are the calls for one's own authenticators, by either API.
type own struct {
	list   func() ([]string, error)
	detail func(id string) (*rest_model.AuthenticatorDetail, error)
	update func(id string, body *rest_model.AuthenticatorUpdateWithCurrent) error
	patch  func(id string, body *rest_model.AuthenticatorPatchWithCurrent) error
	extend func(id string, body *rest_model.IdentityExtendEnrollmentRequest) (*rest_model.IdentityExtendCerts, error)
	proven func(id string, body *rest_model.IdentityExtendValidateEnrollmentRequest) error
}

// tryOwnAuthenticators changes passwords and renews certificates, as their owner and for them.
func tryOwnAuthenticators(r *report, n *network) {
	for name, of := range map[string]func(*member) own{client: (*member).ownByClient, management: (*member).ownByManagement} {
		r.begin("own authenticators (" + name + ")")
		one := n.member("password-" + name)
		if r.check("log in by password", one.login) {
			one.tryPassword(r, of(one))
		}
		other, err := n.device("certificate-" + name)
		if r.check("enroll", func() error { return err }) && r.check("log in by certificate", other.login) {
			other.tryExtension(r, of(other))
		}
	}
	r.begin("authenticators of others")
	n.tryReEnroll(r)
}

// tryPassword changes a member's own password.
func (m *member) tryPassword(r *report, api own) {
	var id string
	found := r.check("list", func() error {
		ids, err := api.list()
		if err == nil && len(ids) != 1 {
			err = fmt.Errorf("found %v", ids)
		}
		id = ids[0]
		return err
	})
	if !found {
		return
	}
	r.check("detail", func() error {
		shows, err := api.detail(id)
		if err != nil {
			return err
		}
		return shown(map[string]any{"id": id, "method": "updb", "username": m.name, "identityId": m.id}, shows)
	})
	r.check("detail of nothing", func() error {
		_, err := api.detail("nothing")
		return refused(err, 404, "NOT_FOUND", "")
	})
	current, next := ptr(rest_model.Password(password)), ptr(rest_model.Password("another password"))
	r.check("patch with a wrong password", func() error {
		body := &rest_model.AuthenticatorPatchWithCurrent{CurrentPassword: ptr(rest_model.Password("wrong password"))}
		body.Password = ptr(rest_model.PasswordNullable(*next))
		err := api.patch(id, body)
		var answer refusal
		if !errors.As(err, &answer) || answer.Code() != 401 && answer.Code() != 400 {
			return fmt.Errorf("wanted a refusal: %s", describe(err))
		}
		return nil
	})
	r.check("patch", func() error {
		body := &rest_model.AuthenticatorPatchWithCurrent{CurrentPassword: current}
		body.Password = ptr(rest_model.PasswordNullable(*next))
		return api.patch(id, body)
	})
	r.check("update", func() error {
		body := &rest_model.AuthenticatorUpdateWithCurrent{CurrentPassword: next}
		body.Password, body.Username = current, ptr(rest_model.Username(m.name))
		return api.update(id, body)
	})
	r.check("log in after that", m.login)
}

// tryExtension renews a member's own certificate, and uses the new one.
func (m *member) tryExtension(r *report, api own) {
	var id string
	r.check("list of a device", func() error {
		ids, err := api.list()
		if err == nil && len(ids) != 1 {
			err = fmt.Errorf("found %v", ids)
		}
		id = ids[0]
		return err
	})
	others := m.n.admin.Authenticator
	r.check("ask a device to renew", func() error {
		asked := authenticator.NewRequestExtendAuthenticatorParams().WithID(id).WithRequestExtendAuthenticator(&rest_model.RequestExtendAuthenticator{RollKeys: true})
		if _, err := others.RequestExtendAuthenticator(asked, nil); err != nil {
			return err
		}
		shows, err := api.detail(id)
		if err != nil {
			return err
		}
		return shown(map[string]any{"isExtendRequested": true, "isKeyRollRequested": true, "method": "cert"}, shows)
	})
	r.check("the session says so", func() error {
		answer, err := m.api.CurrentAPISession.GetCurrentAPISession(nil, nil)
		if err != nil {
			return err
		}
		return shown(map[string]any{"isCertExtendRequested": true, "isCertExtendable": true}, answer.Payload.Data)
	})
	key := newKey()
	r.check("extend", func() error {
		certs, err := api.extend(id, &rest_model.IdentityExtendEnrollmentRequest{ClientCertCsr: ptr(request(m.name, key))})
		if err != nil {
			return err
		}
		if err := api.proven(id, &rest_model.IdentityExtendValidateEnrollmentRequest{ClientCert: &certs.ClientCert}); err != nil {
			return err
		}
		m.keys[0] = pair(certs.ClientCert, key)
		return m.login()
	})
	r.check("detail after that", func() error {
		answer, err := others.DetailAuthenticator(authenticator.NewDetailAuthenticatorParams().WithID(id), nil)
		if err != nil {
			return err
		}
		return shown(map[string]any{"isExtendRequested": false, "lastExtendRolledKeys": true, "isIssuedByNetwork": true}, answer.Payload.Data)
	})
}

// tryReEnroll puts an enrollment in the place of an authenticator.
func (n *network) tryReEnroll(r *report) {
	m := n.member("re-enrolling")
	find := func() ([]string, error) {
		return listed(n.admin.Identity.GetIdentityAuthenticators(identity.NewGetIdentityAuthenticatorsParams().WithID(m.id), nil))
	}
	var id string
	r.check("identities/authenticators", func() error {
		ids, err := find()
		if err == nil && len(ids) != 1 {
			err = fmt.Errorf("found %v", ids)
		}
		id = ids[0]
		return err
	})
	tomorrow := strfmt.DateTime(time.Now().Add(24 * time.Hour))
	again := func(id string) (string, error) {
		asked := authenticator.NewReEnrollAuthenticatorParams().WithID(id).WithReEnroll(&rest_model.ReEnroll{ExpiresAt: &tomorrow})
		return created(n.admin.Authenticator.ReEnrollAuthenticator(asked, nil))
	}
	r.check("ask a password to renew", func() error {
		asked := authenticator.NewRequestExtendAuthenticatorParams().WithID(id).WithRequestExtendAuthenticator(&rest_model.RequestExtendAuthenticator{})
		_, err := n.admin.Authenticator.RequestExtendAuthenticator(asked, nil)
		return refused(err, 401, "UNAUTHORIZED", "")
	})
	r.check("re-enroll in place of an enrollment", func() error {
		body := &rest_model.EnrollmentCreate{Method: ptr("updb"), IdentityID: &m.id, ExpiresAt: &tomorrow, Username: ptr(m.name + "-other")}
		if _, err := created(n.admin.Enrollment.CreateEnrollment(enrollment.NewCreateEnrollmentParams().WithEnrollment(body), nil)); err != nil {
			return err
		}
		made, err := again(id)
		if err != nil {
			return err
		}
		answer, err := n.admin.Identity.GetIdentityEnrollments(identity.NewGetIdentityEnrollmentsParams().WithID(m.id), nil)
		if err != nil {
			return err
		}
		if ids := idsOf(answer.Payload.Data); !slices.Equal(ids, []string{made}) {
			return fmt.Errorf("enrollments are %v, not %s", ids, made)
		}
		return nil
	})
	r.check("re-enroll of nothing", func() error {
		_, err := again("nothing")
		return refused(err, 404, "NOT_FOUND", "")
	})
}

func (m *member) ownByClient() own {
	api := m.api.CurrentAPISession
	return own{
		list: func() ([]string, error) {
			return listed(api.ListCurrentIdentityAuthenticators(client_session.NewListCurrentIdentityAuthenticatorsParams(), nil))
		},
		detail: func(id string) (*rest_model.AuthenticatorDetail, error) {
			answer, err := api.DetailCurrentIdentityAuthenticator(client_session.NewDetailCurrentIdentityAuthenticatorParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		update: func(id string, body *rest_model.AuthenticatorUpdateWithCurrent) error {
			_, err := api.UpdateCurrentIdentityAuthenticator(client_session.NewUpdateCurrentIdentityAuthenticatorParams().WithID(id).WithAuthenticator(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.AuthenticatorPatchWithCurrent) error {
			_, err := api.PatchCurrentIdentityAuthenticator(client_session.NewPatchCurrentIdentityAuthenticatorParams().WithID(id).WithAuthenticator(body), nil)
			return err
		},
		extend: func(id string, body *rest_model.IdentityExtendEnrollmentRequest) (*rest_model.IdentityExtendCerts, error) {
			answer, err := api.ExtendCurrentIdentityAuthenticator(client_session.NewExtendCurrentIdentityAuthenticatorParams().WithID(id).WithExtend(body), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		proven: func(id string, body *rest_model.IdentityExtendValidateEnrollmentRequest) error {
			_, err := api.ExtendVerifyCurrentIdentityAuthenticator(client_session.NewExtendVerifyCurrentIdentityAuthenticatorParams().WithID(id).WithExtend(body), nil)
			return err
		},
	}
}

func (m *member) ownByManagement() own {
	api := m.management().CurrentAPISession
	return own{
		list: func() ([]string, error) {
			return listed(api.ListCurrentIdentityAuthenticators(management_session.NewListCurrentIdentityAuthenticatorsParams(), nil))
		},
		detail: func(id string) (*rest_model.AuthenticatorDetail, error) {
			answer, err := api.DetailCurrentIdentityAuthenticator(management_session.NewDetailCurrentIdentityAuthenticatorParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		update: func(id string, body *rest_model.AuthenticatorUpdateWithCurrent) error {
			_, err := api.UpdateCurrentIdentityAuthenticator(management_session.NewUpdateCurrentIdentityAuthenticatorParams().WithID(id).WithAuthenticator(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.AuthenticatorPatchWithCurrent) error {
			_, err := api.PatchCurrentIdentityAuthenticator(management_session.NewPatchCurrentIdentityAuthenticatorParams().WithID(id).WithAuthenticator(body), nil)
			return err
		},
		extend: func(id string, body *rest_model.IdentityExtendEnrollmentRequest) (*rest_model.IdentityExtendCerts, error) {
			answer, err := api.ExtendCurrentIdentityAuthenticator(management_session.NewExtendCurrentIdentityAuthenticatorParams().WithID(id).WithExtend(body), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		proven: func(id string, body *rest_model.IdentityExtendValidateEnrollmentRequest) error {
			_, err := api.ExtendVerifyCurrentIdentityAuthenticator(management_session.NewExtendVerifyCurrentIdentityAuthenticatorParams().WithID(id).WithExtend(body), nil)
			return err
		},
	}
}
