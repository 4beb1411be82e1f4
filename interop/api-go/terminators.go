package main

import (
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_management_api_client/terminator"
	"github.com/openziti/edge-api/rest_model"
)

// terminators is the kind of that name for one session.
func terminators(api *management_api.ZitiEdgeManagement) kind[*rest_model.TerminatorCreate, *rest_model.TerminatorUpdate, *rest_model.TerminatorPatch] {
	return kind[*rest_model.TerminatorCreate, *rest_model.TerminatorUpdate, *rest_model.TerminatorPatch]{
		name: "terminators",
		by:   "address",
		create: func(body *rest_model.TerminatorCreate) (string, error) {
			return created(api.Terminator.CreateTerminator(terminator.NewCreateTerminatorParams().WithTerminator(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.Terminator.DetailTerminator(terminator.NewDetailTerminatorParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := terminator.NewListTerminatorsParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.Terminator.ListTerminators(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.TerminatorUpdate) error {
			_, err := api.Terminator.UpdateTerminator(terminator.NewUpdateTerminatorParams().WithID(id).WithTerminator(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.TerminatorPatch) error {
			_, err := api.Terminator.PatchTerminator(terminator.NewPatchTerminatorParams().WithID(id).WithTerminator(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.Terminator.DeleteTerminator(terminator.NewDeleteTerminatorParams().WithID(id), nil)
			return err
		},
	}
}

func tryTerminators(r *report, n *network) {
	service, router := n.service("terminator"), n.edgeRouter("terminator")
	try(r, terminators(n.admin), terminators(n.nobody), n.name("terminator"), bodies[*rest_model.TerminatorCreate, *rest_model.TerminatorUpdate, *rest_model.TerminatorPatch]{
		create: func(name string) *rest_model.TerminatorCreate {
			return &rest_model.TerminatorCreate{
				Address: &name, Binding: ptr("transport"), Router: &router, Service: &service, Tags: tags(),
				Cost: ptr(rest_model.TerminatorCost(5)), Precedence: rest_model.TerminatorPrecedenceRequired,
				Identity: name, IdentitySecret: []byte("secret"),
			}
		},
		update: func(name string) *rest_model.TerminatorUpdate {
			return &rest_model.TerminatorUpdate{
				Address: &name, Binding: ptr("transport"), Router: &router, Service: &service,
				Cost: ptr(rest_model.TerminatorCost(6)), Precedence: rest_model.TerminatorPrecedenceFailed,
			}
		},
		patch: func() *rest_model.TerminatorPatch {
			return &rest_model.TerminatorPatch{Cost: ptr(rest_model.TerminatorCost(9)), Precedence: rest_model.TerminatorPrecedenceDefault}
		},
		patched: []string{"cost", "precedence"},
		// Details have references to both, by other names; the secret is never shown.
		hidden:  []string{"router", "service", "identitySecret"},
		unnamed: true,
	})
}
