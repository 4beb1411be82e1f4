package main

import (
	"errors"
	"fmt"

	"github.com/openziti/edge-api/rest_client_api_client/authentication"
	client_session "github.com/openziti/edge-api/rest_client_api_client/current_api_session"
	client_identity "github.com/openziti/edge-api/rest_client_api_client/current_identity"
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	management_authentication "github.com/openziti/edge-api/rest_management_api_client/authentication"
	management_session "github.com/openziti/edge-api/rest_management_api_client/current_api_session"
	management_identity "github.com/openziti/edge-api/rest_management_api_client/current_identity"
	"github.com/openziti/edge-api/rest_model"
)

// mfa is multi-factor authentication of one session's identity, by either API.
type mfa struct {
	enroll func() error
	detail func() (*rest_model.DetailMfa, error)
	qr     func() error
	verify func(code string) error
	codes  func(code string) ([]string, error)
	renew  func(code string) error
	totp   func(code string) error
	remove func(code string) error
	finish func(code string) error
}

// tryMFA takes an identity through multi-factor authentication by the client API, and another
// one by the management API.
func tryMFA(r *report, n *network) {
	r.begin("MFA (client)")
	one := n.member("mfa-client")
	if r.check("log in", one.login) {
		one.tryMFA(r, client, one.clientMFA)
	}
	r.begin("MFA (management)")
	other := n.member("mfa-management")
	if r.check("log in", other.login) {
		other.tryMFA(r, management, other.managementMFA)
	}
}

// tryMFA needs a session of the member; of gives its calls for the session of the moment.
func (m *member) tryMFA(r *report, name string, of func() mfa) {
	api := of()
	r.check("detail before", func() error {
		_, err := api.detail()
		return refused(err, 404, "NOT_FOUND", "")
	})
	if !r.check("enroll", api.enroll) {
		return
	}
	var codes *totp
	r.check("detail", func() error {
		found, err := api.detail()
		if err != nil {
			return err
		}
		if *found.IsVerified || len(found.RecoveryCodes) != 20 {
			return fmt.Errorf("verified: %t, %d recovery codes", *found.IsVerified, len(found.RecoveryCodes))
		}
		codes, err = newTotp(found.ProvisioningURL)
		return err
	})
	if codes == nil {
		return
	}
	r.check("QR code", api.qr)
	r.check("verify with a wrong code", func() error { return refused(api.verify("000000"), 401, "MFA_INVALID_TOKEN", "") })
	r.check("verify", func() error { return api.verify(codes.next()) })
	r.check("identity with it", func() error { return m.n.identityIs(m.id, map[string]any{"isMfaEnabled": true}) })
	var recovery []string
	r.check("recovery codes", func() (err error) {
		recovery, err = api.codes(codes.next())
		if err == nil && len(recovery) != 20 {
			err = fmt.Errorf("there are %d", len(recovery))
		}
		return err
	})
	if recovery == nil {
		return
	}
	r.check("new recovery codes", func() error { return api.renew(recovery[0]) })
	r.check("TOTP token for a session without OIDC", func() error {
		return m.n.calls.never(name, "createTotpToken", api.totp("000000"), 400)
	})
	r.check("log in with it", func() error {
		if err := m.login(); err != nil {
			return err
		}
		if len(m.session.AuthQueries) != 1 || !*m.session.IsMfaRequired || *m.session.IsMfaComplete {
			return fmt.Errorf("%d queries", len(m.session.AuthQueries))
		}
		return nil
	})
	r.check("finish with a code of before", func() error {
		// The clients have no model for this refusal.
		var answer interface{ Code() int }
		if err := of().finish(recovery[1]); !errors.As(err, &answer) || answer.Code() != 401 {
			return fmt.Errorf("wanted 401: %s", describe(err))
		}
		return nil
	})
	r.check("finish", func() error { return of().finish(codes.next()) })
	r.check("remove with a wrong code", func() error { return refused(of().remove("nothing"), 401, "MFA_INVALID_TOKEN", "") })
	r.check("remove", func() error { return of().remove(codes.next()) })
	r.check("identity without it", func() error { return m.n.identityIs(m.id, map[string]any{"isMfaEnabled": false}) })
}

func (m *member) clientMFA() mfa {
	api, session := m.api.CurrentIdentity, m.api.CurrentAPISession
	code := func(code string) *rest_model.MfaCode { return &rest_model.MfaCode{Code: &code} }
	return mfa{
		enroll: func() error { _, err := api.EnrollMfa(nil, nil); return err },
		detail: func() (*rest_model.DetailMfa, error) {
			answer, err := api.DetailMfa(nil, nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		qr: func() error { _, err := api.DetailMfaQrCode(nil, nil); return err },
		verify: func(text string) error {
			_, err := api.VerifyMfa(client_identity.NewVerifyMfaParams().WithMfaValidation(code(text)), nil)
			return err
		},
		codes: func(text string) ([]string, error) {
			answer, err := api.DetailMfaRecoveryCodes(client_identity.NewDetailMfaRecoveryCodesParams().WithMfaValidationCode(&text), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data.RecoveryCodes, nil
		},
		renew: func(text string) error {
			_, err := api.CreateMfaRecoveryCodes(client_identity.NewCreateMfaRecoveryCodesParams().WithMfaValidation(code(text)), nil)
			return err
		},
		totp: func(text string) error {
			_, err := session.CreateTotpToken(client_session.NewCreateTotpTokenParams().WithMfaValidation(code(text)), nil)
			return err
		},
		remove: func(text string) error {
			_, err := api.DeleteMfa(client_identity.NewDeleteMfaParams().WithMfaValidationCode(&text), nil)
			return err
		},
		finish: func(text string) error {
			_, err := m.api.Authentication.AuthenticateMfa(authentication.NewAuthenticateMfaParams().WithMfaAuth(code(text)), nil)
			return err
		},
	}
}

// management is the management API for the member's session.
func (m *member) management() *management_api.ZitiEdgeManagement {
	return m.n.management(*m.session.Token, m.keys...)
}

func (m *member) managementMFA() mfa {
	whole := m.management()
	api, session := whole.CurrentIdentity, whole.CurrentAPISession
	code := func(code string) *rest_model.MfaCode { return &rest_model.MfaCode{Code: &code} }
	return mfa{
		enroll: func() error { _, err := api.EnrollMfa(nil, nil); return err },
		detail: func() (*rest_model.DetailMfa, error) {
			answer, err := api.DetailMfa(nil, nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		qr: func() error { _, err := api.DetailMfaQrCode(nil, nil); return err },
		verify: func(text string) error {
			_, err := api.VerifyMfa(management_identity.NewVerifyMfaParams().WithMfaValidation(code(text)), nil)
			return err
		},
		codes: func(text string) ([]string, error) {
			answer, err := api.DetailMfaRecoveryCodes(management_identity.NewDetailMfaRecoveryCodesParams().WithMfaValidationCode(&text), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data.RecoveryCodes, nil
		},
		renew: func(text string) error {
			_, err := api.CreateMfaRecoveryCodes(management_identity.NewCreateMfaRecoveryCodesParams().WithMfaValidation(code(text)), nil)
			return err
		},
		totp: func(text string) error {
			_, err := session.CreateTotpToken(management_session.NewCreateTotpTokenParams().WithMfaValidation(code(text)), nil)
			return err
		},
		remove: func(text string) error {
			_, err := api.DeleteMfa(management_identity.NewDeleteMfaParams().WithMfaValidationCode(&text), nil)
			return err
		},
		finish: func(text string) error {
			_, err := whole.Authentication.AuthenticateMfa(management_authentication.NewAuthenticateMfaParams().WithMfaAuth(code(text)), nil)
			return err
		},
	}
}
