"""Programs on libraries of distributions, equations, graphs and manifolds."""

import torch
from common import fill, gradsum, mlp, program, rnd, train
from torch import nn


@program("gpytorch", "exact regression: trained, predicted")
def exact_gp(out):
    import gpytorch

    x = torch.linspace(0, 1, 20)
    y = torch.sin(x * 6) + rnd((20,), "n", 0.1)

    class GP(gpytorch.models.ExactGP):
        def __init__(self, x, y, lik):
            super().__init__(x, y, lik)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    lik = gpytorch.likelihoods.GaussianLikelihood()
    m = GP(x, y, lik)
    m.train()
    lik.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(lik, m)
    opt = torch.optim.Adam(m.parameters(), lr=0.1)
    out("losses", train(m, lambda i: -mll(m(x), y), n=8, opt=opt))
    m.eval()
    lik.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        p = lik(m(torch.linspace(0, 1, 7)))
        out("mean", p.mean)
        out("var", p.variance)
        lo, hi = p.confidence_region()
        out("lo", lo)


@program("gpytorch", "variational regression, trained")
def variational_gp(out):
    import gpytorch

    x = torch.linspace(0, 1, 30).unsqueeze(-1)
    y = torch.sin(x[:, 0] * 6)

    class SV(gpytorch.models.ApproximateGP):
        def __init__(self, z):
            q = gpytorch.variational.CholeskyVariationalDistribution(z.size(0))
            s = gpytorch.variational.VariationalStrategy(self, z, q, learn_inducing_locations=True)
            super().__init__(s)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    m = SV(x[::5].clone())
    lik = gpytorch.likelihoods.GaussianLikelihood()
    with torch.no_grad():
        m.variational_strategy.variational_params_initialized.fill_(1)
    mll = gpytorch.mlls.VariationalELBO(lik, m, num_data=30)
    opt = torch.optim.Adam(list(m.parameters()) + list(lik.parameters()), lr=0.05)
    m.train()
    lik.train()
    out("losses", train(m, lambda i: -mll(m(x), y), n=5, opt=opt))


@program("botorch", "a fitted model, an acquisition function optimised")
def bayesian_optimisation(out):
    from botorch.models import SingleTaskGP
    from botorch.fit import fit_gpytorch_mll
    from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    X = rnd((10, 2)).abs() % 1
    Y = (X**2).sum(-1, keepdim=True).sin()
    gp = SingleTaskGP(X, Y)
    mll = ExactMarginalLogLikelihood(gp.likelihood, gp)
    fit_gpytorch_mll(mll)
    out("noise", gp.likelihood.noise)
    out("ls", gp.covar_module.lengthscale)
    acq = UpperConfidenceBound(gp, beta=0.1)
    out("acq", acq(X[:3].unsqueeze(1)))
    cand, v = optimize_acqf(
        acq,
        bounds=torch.stack([torch.zeros(2), torch.ones(2)]),
        q=1,
        num_restarts=2,
        raw_samples=8,
        options={"batch_limit": 2},
        batch_initial_conditions=X[:2].unsqueeze(1),
    )
    out("cand", cand)
    out("v", v)


@program("pyro", "SVI of parameters")
def svi(out):
    import pyro, pyro.distributions as dist
    from pyro.infer import SVI, TraceMeanField_ELBO, Trace_ELBO

    pyro.clear_param_store()
    data = rnd((20,)) + 2

    def model(d):
        mu = pyro.param("m0", torch.tensor(0.0))
        s = pyro.param("s0", torch.tensor(1.0), constraint=dist.constraints.positive)
        with pyro.plate("d", len(d)):
            pyro.sample("obs", dist.Normal(mu, s), obs=d)

    def guide(d):
        pass

    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    out("losses", [svi.step(data) for _ in range(10)])
    out("m0", pyro.param("m0"))


@program("pyro", "SVI with a guide, NUTS: rounded estimates")
def guide_and_nuts(out):
    import pyro, pyro.distributions as dist
    from pyro.infer import SVI, TraceMeanField_ELBO, MCMC, NUTS
    from pyro.infer.autoguide import AutoNormal

    pyro.set_rng_seed(0)
    data = rnd((20,)) + 2

    def model(d):
        mu = pyro.sample("mu", dist.Normal(0.0, 10.0))
        s = pyro.sample("s", dist.LogNormal(0.0, 1.0))
        with pyro.plate("d", len(d)):
            pyro.sample("obs", dist.Normal(mu, s), obs=d)

    g = AutoNormal(model)
    svi = SVI(model, g, pyro.optim.Adam({"lr": 0.05}), TraceMeanField_ELBO())
    for _ in range(300):
        loss = svi.step(data)
    out("~median", [round(float(v), 0) for v in g.median().values()])
    mc = MCMC(NUTS(model), num_samples=40, warmup_steps=40, disable_progbar=True)
    mc.run(data)
    out("~nuts", round(float(mc.get_samples()["mu"].mean()), 0))


@program("torchdiffeq", "odeint and its adjoint, dopri5 and rk4")
def ode(out):
    from torchdiffeq import odeint, odeint_adjoint

    f = fill(mlp(2, 8, 2), 0.5)

    class F(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = f

        def forward(self, t, y):
            return self.net(y) * (1 + t)

    F_ = F()
    y0 = rnd((3, 2)).requires_grad_()
    t = torch.linspace(0.0, 1.0, 5)
    for name, fn in (("odeint", odeint), ("adjoint", odeint_adjoint)):
        for m in ("dopri5", "rk4"):
            F_.zero_grad()
            y0.grad = None
            y = fn(F_, y0, t, method=m)
            (y**2).mean().backward()
            out(f"{name} {m}", y)
            out(f"{name} {m} g", y0.grad)
            out(f"{name} {m} p", gradsum(F_))


@program("torchsde", "sdeint and its adjoint")
def sde(out):
    import torchsde

    class S(nn.Module):
        noise_type = "diagonal"
        sde_type = "ito"

        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.tensor(0.5))

        def f(self, t, y):
            return -self.a * y

        def g(self, t, y):
            return 0.0 * y + 0.0 * self.a

    y = torchsde.sdeint(S(), torch.ones(2, 3), torch.linspace(0, 1, 4), dt=0.1, method="euler")
    out("y", y)
    s = S()
    y = torchsde.sdeint_adjoint(s, torch.ones(2, 3), torch.linspace(0, 1, 4), dt=0.1, method="euler")
    y.sum().backward()
    out("g", s.a.grad)


@program("geoopt", "optimisers on two manifolds")
def manifolds(out):
    import geoopt

    b = geoopt.PoincareBall(c=1.0)
    p = geoopt.ManifoldParameter(rnd((3, 2), "p", 0.1), manifold=b)
    q = b.projx(rnd((3, 2), "q", 0.3))
    o = geoopt.optim.RiemannianAdam([p], lr=0.05)
    ls = []
    for _ in range(5):
        o.zero_grad()
        loss = b.dist(p, q).pow(2).sum()
        loss.backward()
        o.step()
        ls.append(loss.item())
    out("losses", ls)
    out("p", p)
    s = geoopt.Stiefel()
    w = geoopt.ManifoldParameter(s.projx(rnd((4, 2), "w")), manifold=s)
    o = geoopt.optim.RiemannianSGD([w], lr=0.1)
    for _ in range(3):
        o.zero_grad()
        loss = (w - 1).pow(2).sum()
        loss.backward()
        o.step()
    out("w", w)


@program("nflows", "a masked autoregressive flow, trained, float32")
def masked_flow(out):
    from nflows.flows.base import Flow
    from nflows.distributions.normal import StandardNormal
    from nflows.transforms.base import CompositeTransform
    from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
    from nflows.transforms.permutations import ReversePermutation

    torch.set_default_dtype(torch.float32)
    f = fill(
        Flow(
            CompositeTransform(
                [
                    t
                    for _ in range(2)
                    for t in (
                        ReversePermutation(features=3),
                        MaskedAffineAutoregressiveTransform(features=3, hidden_features=8),
                    )
                ]
            ),
            StandardNormal(shape=[3]),
        )
    )
    x = rnd((8, 3))
    out("losses", train(f, lambda i: -f.log_prob(inputs=x).mean()))


@program("normflows", "a spline flow, trained, float32")
def spline_flow(out):
    torch.set_default_dtype(torch.float32)
    import normflows as nf

    torch.manual_seed(0)
    flows = [
        nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8),
        nf.flows.LULinearPermute(2),
        nf.flows.Planar((2,)),
    ][:1]
    m = fill(nf.NormalizingFlow(nf.distributions.DiagGaussian(2, trainable=True), flows))
    x = rnd((8, 2))
    out("losses", train(m, lambda i: m.forward_kld(x)))


@program("torch_geometric", "GCN, GAT and SAGE on a batch of graphs, trained")
def graphs(out):
    from torch_geometric.nn import GCNConv, GATConv, SAGEConv, global_mean_pool
    from torch_geometric.data import Data, Batch

    ei = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    d = Batch.from_data_list([Data(x=rnd((4, 3), k), edge_index=ei, y=torch.tensor([k % 2])) for k in range(3)])

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = GCNConv(3, 8)
            self.b = GATConv(8, 8, heads=2)
            self.c = SAGEConv(16, 2)

        def forward(self, d):
            return global_mean_pool(
                self.c(self.b(self.a(d.x, d.edge_index).relu(), d.edge_index).relu(), d.edge_index), d.batch
            )

    m = fill(M(), 0.3)
    out("losses", train(m, lambda i: nn.functional.cross_entropy(m(d), d.y)))


@program("linear_operator", "solve, logdet, Cholesky")
def operators(out):
    import linear_operator as lo
    from linear_operator.operators import DenseLinearOperator, DiagLinearOperator, ToeplitzLinearOperator

    a = rnd((5, 5))
    k = DenseLinearOperator(a @ a.T + 3 * torch.eye(5)).requires_grad_(True)
    b = rnd((5, 2))
    s = (k + DiagLinearOperator(torch.ones(5))).solve(b)
    out("s", s)
    out("ld", k.logdet())
    iq, ld = k.inv_quad_logdet(b, logdet=True)
    out("iq", iq)
    out("ch", k.cholesky().to_dense())
    s.sum().backward()
    out("g", k.to_dense().sum())


@program("entmax", "three maps and a gradient")
def sparse_maps(out):
    from entmax import entmax15, sparsemax, entmax_bisect

    x = rnd((3, 5)).requires_grad_()
    out("a", entmax15(x))
    out("b", sparsemax(x))
    out("c", entmax_bisect(x, 1.3))
    (entmax15(x) * torch.arange(5.0)).sum().backward()
    out("g", x.grad)
