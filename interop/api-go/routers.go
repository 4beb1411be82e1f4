package main

import (
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_management_api_client/edge_router"
	"github.com/openziti/edge-api/rest_management_api_client/router"
	"github.com/openziti/edge-api/rest_model"
)

// edgeRouters is the kind of that name for one session.
func edgeRouters(api *management_api.ZitiEdgeManagement) kind[*rest_model.EdgeRouterCreate, *rest_model.EdgeRouterUpdate, *rest_model.EdgeRouterPatch] {
	return kind[*rest_model.EdgeRouterCreate, *rest_model.EdgeRouterUpdate, *rest_model.EdgeRouterPatch]{
		name: "edge-routers",
		by:   "name",
		create: func(body *rest_model.EdgeRouterCreate) (string, error) {
			return created(api.EdgeRouter.CreateEdgeRouter(edge_router.NewCreateEdgeRouterParams().WithEdgeRouter(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.EdgeRouter.DetailEdgeRouter(edge_router.NewDetailEdgeRouterParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := edge_router.NewListEdgeRoutersParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.EdgeRouter.ListEdgeRouters(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.EdgeRouterUpdate) error {
			_, err := api.EdgeRouter.UpdateEdgeRouter(edge_router.NewUpdateEdgeRouterParams().WithID(id).WithEdgeRouter(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.EdgeRouterPatch) error {
			_, err := api.EdgeRouter.PatchEdgeRouter(edge_router.NewPatchEdgeRouterParams().WithID(id).WithEdgeRouter(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.EdgeRouter.DeleteEdgeRouter(edge_router.NewDeleteEdgeRouterParams().WithID(id), nil)
			return err
		},
	}
}

// routers is the kind of that name for one session.
func routers(api *management_api.ZitiEdgeManagement) kind[*rest_model.RouterCreate, *rest_model.RouterUpdate, *rest_model.RouterPatch] {
	return kind[*rest_model.RouterCreate, *rest_model.RouterUpdate, *rest_model.RouterPatch]{
		name: "routers",
		by:   "name",
		create: func(body *rest_model.RouterCreate) (string, error) {
			return created(api.Router.CreateRouter(router.NewCreateRouterParams().WithRouter(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.Router.DetailRouter(router.NewDetailRouterParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := router.NewListRoutersParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.Router.ListRouters(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.RouterUpdate) error {
			_, err := api.Router.UpdateRouter(router.NewUpdateRouterParams().WithID(id).WithRouter(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.RouterPatch) error {
			_, err := api.Router.PatchRouter(router.NewPatchRouterParams().WithID(id).WithRouter(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.Router.DeleteRouter(router.NewDeleteRouterParams().WithID(id), nil)
			return err
		},
	}
}

// transitRouters is the kind of that name for one session.
func transitRouters(api *management_api.ZitiEdgeManagement) kind[*rest_model.RouterCreate, *rest_model.RouterUpdate, *rest_model.RouterPatch] {
	return kind[*rest_model.RouterCreate, *rest_model.RouterUpdate, *rest_model.RouterPatch]{
		name: "transit-routers",
		by:   "name",
		create: func(body *rest_model.RouterCreate) (string, error) {
			return created(api.Router.CreateTransitRouter(router.NewCreateTransitRouterParams().WithRouter(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.Router.DetailTransitRouter(router.NewDetailTransitRouterParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := router.NewListTransitRoutersParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.Router.ListTransitRouters(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.RouterUpdate) error {
			_, err := api.Router.UpdateTransitRouter(router.NewUpdateTransitRouterParams().WithID(id).WithRouter(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.RouterPatch) error {
			_, err := api.Router.PatchTransitRouter(router.NewPatchTransitRouterParams().WithID(id).WithRouter(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.Router.DeleteTransitRouter(router.NewDeleteTransitRouterParams().WithID(id), nil)
			return err
		},
	}
}

func tryEdgeRouters(r *report, n *network) {
	configured := n.config("edge-router", n.routerConfigType("edge-router"), map[string]any{"size": 1})
	try(r, edgeRouters(n.admin), edgeRouters(n.nobody), n.name("edge-router"), bodies[*rest_model.EdgeRouterCreate, *rest_model.EdgeRouterUpdate, *rest_model.EdgeRouterPatch]{
		create: func(name string) *rest_model.EdgeRouterCreate {
			return &rest_model.EdgeRouterCreate{
				Name: &name, Tags: tags(), AppData: appData(), Cost: ptr(int64(7)), Disabled: ptr(false), NoTraversal: ptr(true),
				Configs: []string{configured}, IsTunnelerEnabled: true, RoleAttributes: n.attributes("east", "big"),
				CtrlChanListeners: map[string][]string{"tls:127.0.0.1:6262": {"default"}},
			}
		},
		update: func(name string) *rest_model.EdgeRouterUpdate {
			return &rest_model.EdgeRouterUpdate{
				Name: &name, Cost: ptr(int64(9)), Disabled: ptr(true), NoTraversal: ptr(false), RoleAttributes: n.attributes("west"),
			}
		},
		patch: func() *rest_model.EdgeRouterPatch {
			return &rest_model.EdgeRouterPatch{Cost: ptr(int64(8)), NoTraversal: ptr(false)}
		},
		patched: []string{"cost", "noTraversal"},
	})
}

func tryRouters(r *report, n *network) {
	configured := n.config("router", n.routerConfigType("router"), map[string]any{"size": 1})
	b := bodies[*rest_model.RouterCreate, *rest_model.RouterUpdate, *rest_model.RouterPatch]{
		create: func(name string) *rest_model.RouterCreate {
			return &rest_model.RouterCreate{
				Name: &name, Tags: tags(), Configs: []string{configured}, Cost: ptr(int64(7)), Disabled: ptr(false), NoTraversal: ptr(true),
				CtrlChanListeners: map[string][]string{"tls:127.0.0.1:6262": {"default"}},
			}
		},
		update: func(name string) *rest_model.RouterUpdate {
			return &rest_model.RouterUpdate{Name: &name, Cost: ptr(int64(9)), Disabled: ptr(true), NoTraversal: ptr(false)}
		},
		patch: func() *rest_model.RouterPatch {
			return &rest_model.RouterPatch{Cost: ptr(int64(8)), Tags: tags("changed")}
		},
		patched: []string{"cost", "tags"},
		silent:  []string{"delete of nothing"},
	}
	try(r, routers(n.admin), routers(n.nobody), n.name("router"), b)
	b.silent = nil
	try(r, transitRouters(n.admin), transitRouters(n.nobody), n.name("transit-router"), b)
}
