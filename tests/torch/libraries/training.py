"""Programs on libraries that train and measure."""

import tempfile

import torch
from common import fill, gradsum, ints, mlp, program, rnd, train
from torch import nn


@program("lightning", "Trainer: fit, validate, checkpoint")
def lightning(out):
    import logging
    import lightning as L

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    ls = []

    class M(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = fill(mlp(4, 8, 1))

        def training_step(self, b, i):
            x, y = b
            loss = nn.functional.mse_loss(self.net(x), y)
            self.log("train", loss)
            ls.append(loss.item())
            return loss

        def validation_step(self, b, i):
            x, y = b
            self.log("val", nn.functional.mse_loss(self.net(x), y))

        def configure_optimizers(self):
            o = torch.optim.Adam(self.parameters(), lr=0.01)
            return {"optimizer": o, "lr_scheduler": torch.optim.lr_scheduler.StepLR(o, 1, 0.5)}

    dl = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rnd((16, 4)), rnd((16, 1), "y")), batch_size=4)
    with tempfile.TemporaryDirectory() as d:
        t = L.Trainer(
            max_epochs=3,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=True,
            default_root_dir=d,
            gradient_clip_val=1.0,
        )
        m = M()
        t.fit(m, dl, dl)
        out("val", t.callback_metrics["val"])
        out("losses", ls)
        p = d + "/c.ckpt"
        t.save_checkpoint(p)
        n = M.load_from_checkpoint(p, weights_only=False)
        out("same", (n.net(rnd((2, 4))) - m.net(rnd((2, 4)))).abs().max())


@program("torchmetrics", "21 metrics")
def metrics(out):
    import torchmetrics as tm
    import torchmetrics.functional as F

    p = rnd((20, 4)).softmax(-1)
    y = ints((20,), 4)
    for n, m in dict(
        acc=tm.Accuracy(task="multiclass", num_classes=4),
        f1=tm.F1Score(task="multiclass", num_classes=4, average="macro"),
        auroc=tm.AUROC(task="multiclass", num_classes=4),
        cm=tm.ConfusionMatrix(task="multiclass", num_classes=4),
        ap=tm.AveragePrecision(task="multiclass", num_classes=4),
        cal=tm.CalibrationError(task="multiclass", num_classes=4),
    ).items():
        m.update(p[:10], y[:10])
        m.update(p[10:], y[10:])
        out(n, m.compute())
    a, b = (rnd((20,)), rnd((20,), "b"))
    for n, m in dict(
        mse=tm.MeanSquaredError(),
        mae=tm.MeanAbsoluteError(),
        r2=tm.R2Score(),
        pear=tm.PearsonCorrCoef(),
        spear=tm.SpearmanCorrCoef(),
        ev=tm.ExplainedVariance(),
    ).items():
        m.update(a, b)
        out(n, m.compute())
    i, j = (rnd((2, 3, 32, 32)).abs() % 1, rnd((2, 3, 32, 32), "j").abs() % 1)
    from torchmetrics.image import StructuralSimilarityIndexMeasure as S, PeakSignalNoiseRatio as P

    out("ssim", S(data_range=1.0)(i, j))
    out("psnr", P(data_range=1.0)(i, j))
    c = tm.MetricCollection([tm.MeanSquaredError(), tm.MeanAbsoluteError()])
    c.update(a, b)
    out("coll", list(c.compute().values()))
    from torchmetrics.text import BLEUScore, Perplexity

    out("bleu", BLEUScore()(["the cat is on the mat"], [["there is a cat on the mat"]]))


@program("ignite", "a trainer, an evaluator")
def engines(out):
    from ignite.engine import create_supervised_trainer, create_supervised_evaluator, Events
    from ignite.metrics import Accuracy, Loss

    m = fill(mlp(4, 8, 3))
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    lf = nn.CrossEntropyLoss()
    dl = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rnd((16, 4)), ints((16,), 3)), batch_size=4)
    t = create_supervised_trainer(m, opt, lf)
    ls = []
    t.add_event_handler(Events.ITERATION_COMPLETED, lambda e: ls.append(e.state.output))
    t.run(dl, max_epochs=3)
    e = create_supervised_evaluator(m, metrics={"acc": Accuracy(), "loss": Loss(lf)})
    e.run(dl)
    out("losses", ls)
    out("acc", e.state.metrics["acc"])
    out("loss", e.state.metrics["loss"])


@program("skorch", "a classifier, float32")
def classifier(out):
    torch.set_default_dtype(torch.float32)
    from skorch import NeuralNetClassifier

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = fill(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))

        def forward(self, x):
            return self.net(x)

    X = rnd((40, 4)).numpy().astype("float32")
    y = ints((40,), 3).numpy()
    n = NeuralNetClassifier(
        M,
        criterion=nn.CrossEntropyLoss,
        lr=0.1,
        max_epochs=4,
        iterator_train__shuffle=False,
        verbose=0,
        train_split=None,
    )
    n.fit(X, y)
    out("losses", n.history[:, "train_loss"])
    out("p", torch.from_numpy(n.predict_proba(X)[:3].copy()))


@program("pytorch_optimizer", "17 optimisers; Muon in bfloat16, SOAP by float32 factors")
def many_optimizers(out):
    import pytorch_optimizer as po

    for name in (
        "AdaBelief",
        "Lion",
        "RAdam",
        "Ranger21",
        "MADGRAD",
        "Adan",
        "Lamb",
        "NovoGrad",
        "DAdaptAdam",
        "Prodigy",
        "SOAP",
        "Shampoo",
        "Adafactor",
        "CAME",
        "Muon",
        "ScheduleFreeAdamW",
        "AdEMAMix",
    ):
        cls = po.load_optimizer(name)
        m = fill(mlp(4, 8, 1), 0.3)
        kw = {"num_iterations": 10} if name == "Ranger21" else {}
        if name == "Muon":
            o = cls(
                [
                    {"params": [p for p in m.parameters() if p.ndim == 2], "use_muon": True},
                    {"params": [p for p in m.parameters() if p.ndim < 2], "use_muon": False},
                ]
            )
        else:
            o = cls(m.parameters(), lr=0.01, **kw)
        if hasattr(o, "train"):
            o.train()
        x, y = (rnd((8, 4)), rnd((8, 1), "y"))
        out(name, train(m, lambda i: ((m(x) - y) ** 2).mean(), n=5, opt=o))


@program("torch_optimizer", "23 optimisers")
def more_optimizers(out):
    import torch_optimizer as to

    for name in (
        "AccSGD",
        "AdaBound",
        "AdaMod",
        "Adafactor",
        "AdamP",
        "AggMo",
        "Apollo",
        "DiffGrad",
        "Lamb",
        "MADGRAD",
        "NovoGrad",
        "PID",
        "QHAdam",
        "QHM",
        "RAdam",
        "Ranger",
        "RangerQH",
        "SGDW",
        "SGDP",
        "SWATS",
        "Shampoo",
        "Yogi",
        "AdaBelief",
    ):
        m = fill(mlp(4, 8, 1), 0.3)
        o = getattr(to, name)(m.parameters(), lr=0.01)
        x, y = (rnd((8, 4)), rnd((8, 1), "y"))
        out(name, train(m, lambda i: ((m(x) - y) ** 2).mean(), n=5, opt=o))


@program("snntorch", "a spiking layer and its gradients, float32")
def spikes(out):
    torch.set_default_dtype(torch.float32)
    import snntorch as snn
    from snntorch import surrogate

    fc = fill(nn.Linear(4, 3))
    lif = snn.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid())
    mem = lif.init_leaky()
    s = 0
    for t in range(10):
        spk, mem = lif(fc(rnd((2, 4), t, 5.0)), mem)
        s = s + spk
    loss = (s * torch.tensor([1.0, 2, 3])).sum() + mem.sum()
    loss.backward()
    out("l", loss)
    out("g", fc.weight.grad)


@program("lion_pytorch", "the optimiser")
def lion(out):
    from lion_pytorch import Lion

    m = fill(nn.Linear(4, 1))
    x, y = (rnd((8, 4)), rnd((8, 1), "y"))
    out("losses", train(m, lambda i: ((m(x) - y) ** 2).mean(), opt=Lion(m.parameters(), lr=0.01)))


@program("ema_pytorch", "averages of weights")
def averages(out):
    from ema_pytorch import EMA

    m = fill(nn.Linear(4, 1))
    e = EMA(m, beta=0.9, update_after_step=1, update_every=1)
    x, y = (rnd((8, 4)), rnd((8, 1), "y"))
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    for _ in range(6):
        o.zero_grad()
        ((m(x) - y) ** 2).mean().backward()
        o.step()
        e.update()
    out("e", e(x))


@program("einops", "rearrange, reduce, repeat, einsum, layers")
def rearranged(out):
    from einops import rearrange, reduce, repeat, einsum
    from einops.layers.torch import Rearrange, Reduce

    x = rnd((2, 3, 4, 6)).requires_grad_()
    out("a", rearrange(x, "b c (h p) w -> b h (p c) w", p=2))
    out("r", reduce(x, "b c h w -> b c", "max"))
    out("e", einsum(x, x, "b c h w, b d h w -> c d"))
    out("rp", repeat(x, "b c h w -> b (r c) h w", r=2))
    loss = nn.Sequential(Rearrange("b c h w -> b (c h w)"), nn.Linear(72, 2))
    fill(loss)
    loss(x).sum().backward()
    out("g", x.grad)


@program("higher", "an inner loop")
def inner_loop(out):
    import higher

    m = fill(mlp(4, 8, 1), 0.3)
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    x, y = (rnd((8, 4)), rnd((8, 1), "y"))
    with higher.innerloop_ctx(m, o, copy_initial_weights=False) as (f, d):
        for _ in range(3):
            d.step(((f(x) - y) ** 2).mean())
        loss = ((f(x) - y) ** 2).mean()
        loss.backward()
    out("l", loss)
    out("g", gradsum(m))
