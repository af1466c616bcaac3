"""Programs on libraries of images."""

import numpy as np
import torch
from common import fill, gradsum, ints, program, rnd, train
from torch import nn


@program("torchvision", "resnet18, trained")
def resnet(out):
    import torchvision

    m = fill(torchvision.models.resnet18(num_classes=5).double(), 0.05)
    x = rnd((2, 3, 32, 32))
    y = ints((2,), 5)
    out("losses", train(m, lambda i: nn.functional.cross_entropy(m(x), y), n=2, lr=0.001))


@program("torchvision", "transforms, v1 and v2")
def transforms(out):
    from torchvision import transforms as T
    from torchvision.transforms import v2
    import torchvision.transforms.functional as F

    x = rnd((3, 20, 24)).abs() % 1
    out("norm", T.Compose([T.Resize((16, 16), antialias=True), T.CenterCrop(12), T.Normalize([0.5] * 3, [0.2] * 3)])(x))
    out("gray", T.Grayscale()(x))
    out("rot", F.rotate(x, 30.0))
    out("blur", F.gaussian_blur(x, 5, 1.0))
    out("hue", F.adjust_hue(x, 0.1))
    out("affine", F.affine(x, 10.0, [1, 2], 1.2, [5.0, 0.0]))
    out("v2", v2.Compose([v2.Resize((10, 10), antialias=True), v2.ToDtype(torch.float64, scale=True)])(x))
    from PIL import Image

    im = Image.fromarray((x.permute(1, 2, 0).numpy() * 255).astype("uint8"))
    out("totensor", T.ToTensor()(im))
    out("pil", torch.from_numpy(np.asarray(F.to_pil_image(x.float())).astype("float64")))


@program("vit_pytorch", "ViT, trained")
def patches(out):
    from vit_pytorch import ViT

    m = fill(ViT(image_size=16, patch_size=4, num_classes=3, dim=32, depth=2, heads=4, mlp_dim=32).double())
    x = rnd((2, 3, 16, 16))
    y = ints((2,), 3)
    out("losses", train(m, lambda i: nn.functional.cross_entropy(m(x), y)))


@program("denoising_diffusion_pytorch", "a loss of a diffusion model and its gradients, float32")
def diffusion(out):
    torch.set_default_dtype(torch.float32)
    from denoising_diffusion_pytorch import Unet, GaussianDiffusion

    m = fill(Unet(dim=8, dim_mults=(1, 2), flash_attn=False))
    d = GaussianDiffusion(m, image_size=8, timesteps=10)
    x = rnd((2, 3, 8, 8))
    n = rnd((2, 3, 8, 8), "n")
    t = torch.tensor([2, 7])
    loss = d.p_losses(x, t, noise=n)
    loss.backward()
    out("loss", loss)
    out("grad", gradsum(m))


@program("segmentation_models_pytorch", "U-Net with Dice loss, trained")
def unet(out):
    import segmentation_models_pytorch as smp

    m = fill(smp.Unet("resnet18", encoder_weights=None, classes=2).double(), 0.05)
    x = rnd((2, 3, 32, 32))
    y = ints((2, 32, 32), 2)
    dice = smp.losses.DiceLoss("multiclass")
    out("losses", train(m, lambda i: nn.functional.cross_entropy(m(x), y) + dice(m(x), y), n=2, lr=0.001))


@program("kornia", "filters, colours, rotation, SSIM, Canny")
def filters(out):
    import kornia as K

    x = rnd((2, 3, 16, 16)).abs() % 1
    x.requires_grad_()
    out("sobel", K.filters.sobel(x))
    out("hsv", K.color.rgb_to_hsv(x))
    out("gauss", K.filters.gaussian_blur2d(x, (5, 5), (1.0, 1.0)))
    out("rot", K.geometry.rotate(x, torch.tensor([10.0, 20.0])))
    out("ssim", K.losses.ssim_loss(x, x.detach() * 0.9, 5))
    out("canny", K.filters.canny(x.detach())[0])
    K.losses.ssim_loss(x, x.detach() * 0.9, 5).backward()
    out("g", x.grad)
    out("harris", K.feature.harris_response(x.detach()))


TIMM = {
    "resnet18": {},
    "vit_tiny_patch16_224": {"img_size": 64},
    "swin_tiny_patch4_window7_224": {"img_size": 56},
    "efficientnet_b0": {},
    "convnext_atto": {},
    "mobilenetv3_small_050": {},
    "regnetx_002": {},
    "densenet121": {},
    "resnext26ts": {},
}


@program("timm", "9 architectures: trained in train mode, and in eval mode")
def architectures(out):
    import timm

    for name, options in TIMM.items():
        m = fill(timm.create_model(name, num_classes=5, drop_rate=0.0, **options).double(), 0.05)
        s = options.get("img_size", 64)
        x, y = rnd((2, 3, s, s)), ints((2,), 5)
        m.train()
        for part in m.modules():
            if isinstance(part, nn.Dropout) or type(part).__name__ == "DropPath":
                part.eval()
        out(f"{name} losses", train(m, lambda i: nn.functional.cross_entropy(m(x), y), n=2, lr=1e-3))  # noqa: B023
        out(f"{name} eval", m.eval()(x))
