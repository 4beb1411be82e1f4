package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/openziti/edge-api/rest_management_api_client/api_session"
	"github.com/openziti/edge-api/rest_management_api_client/authentication"
	"github.com/openziti/edge-api/rest_management_api_client/current_api_session"
	"github.com/openziti/edge-api/rest_model"
)

// tryAPISessions finds the session of a member, and ends it.
func tryAPISessions(r *report, n *network) {
	r.begin("api-sessions")
	api := n.admin.APISession
	m := n.member("api-session")
	if !r.check("log in", m.login) {
		return
	}
	id := *m.session.ID
	detail := func() (*rest_model.APISessionDetail, error) {
		answer, err := api.DetailAPISessions(api_session.NewDetailAPISessionsParams().WithID(id), nil)
		if err != nil {
			return nil, err
		}
		return answer.Payload.Data, nil
	}
	r.check("detail", func() error {
		found, err := detail()
		if err != nil {
			return err
		}
		// No caller may read the token of another identity's session.
		return errors.Join(identified(found, id), shown(map[string]any{"identityId": m.id, "token": ""}, found))
	})
	r.check("list by identity", func() error {
		asked := api_session.NewListAPISessionsParams().WithFilter(ptr(fmt.Sprintf("identity = %q", m.id)))
		found, err := listed(api.ListAPISessions(asked, nil))
		if err == nil && !slices.Equal(found, []string{id}) {
			err = fmt.Errorf("found %v, not %s", found, id)
		}
		return err
	})
	r.check("list by the member itself", func() error {
		_, err := m.management().APISession.ListAPISessions(api_session.NewListAPISessionsParams(), nil)
		return refused(err, 401, "UNAUTHORIZED", "")
	})
	r.check("delete", func() error {
		if _, err := api.DeleteAPISessions(api_session.NewDeleteAPISessionsParams().WithID(id), nil); err != nil {
			return err
		}
		_, err := detail()
		return refused(err, 404, "NOT_FOUND", "")
	})
	r.check("its session after that", func() error {
		_, err := m.api.CurrentIdentity.GetCurrentIdentity(nil, nil)
		return refused(err, 401, "UNAUTHORIZED", "")
	})
	r.check("authenticate (management)", func() error {
		body := &rest_model.Authenticate{Username: rest_model.Username(m.name), Password: password}
		answer, err := n.nobody.Authentication.Authenticate(authentication.NewAuthenticateParams().WithMethod("password").WithAuth(body))
		if err != nil {
			return err
		}
		own := n.management(*answer.Payload.Data.Token)
		current, err := own.CurrentAPISession.GetCurrentAPISession(current_api_session.NewGetCurrentAPISessionParams(), nil)
		if err != nil {
			return err
		}
		who, err := own.CurrentIdentity.GetCurrentIdentity(nil, nil)
		if err != nil {
			return err
		}
		if *current.Payload.Data.IdentityID != m.id || *who.Payload.Data.ID != m.id {
			return errors.New("it is the session of somebody else")
		}
		_, err = own.CurrentAPISession.DeleteCurrentAPISession(nil, nil)
		return err
	})
}
