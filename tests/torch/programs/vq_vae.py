"""A quantised code with a straight-through estimate: argmin of distances, one-hot products, commitment."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import fill, numbers


class VectorQuantizer(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, commitment_cost):
        super(VectorQuantizer, self).__init__()
        self._embedding_dim, self._num_embeddings = embedding_dim, num_embeddings
        self._embedding = nn.Embedding(num_embeddings, embedding_dim)
        self._embedding.weight.data.uniform_(-1 / num_embeddings, 1 / num_embeddings)
        self._commitment_cost = commitment_cost

    def forward(self, inputs):
        inputs = inputs.permute(0, 2, 3, 1).contiguous()
        input_shape = inputs.shape
        flat_input = inputs.view(-1, self._embedding_dim)
        distances = (
            torch.sum(flat_input**2, dim=1, keepdim=True)
            + torch.sum(self._embedding.weight**2, dim=1)
            - 2 * torch.matmul(flat_input, self._embedding.weight.t())
        )
        encoding_indices = torch.argmin(distances, dim=1).unsqueeze(1)
        encodings = torch.zeros(
            encoding_indices.shape[0], self._num_embeddings, device=inputs.device, dtype=inputs.dtype
        )
        encodings.scatter_(1, encoding_indices, 1)
        quantized = torch.matmul(encodings, self._embedding.weight).view(input_shape)
        e_latent_loss = F.mse_loss(quantized.detach(), inputs)
        q_latent_loss = F.mse_loss(quantized, inputs.detach())
        loss = q_latent_loss + self._commitment_cost * e_latent_loss
        quantized = inputs + (quantized - inputs).detach()
        avg_probs = torch.mean(encodings, dim=0)
        perplexity = torch.exp(-torch.sum(avg_probs * torch.log(avg_probs + 1e-10)))
        return loss, quantized.permute(0, 3, 1, 2).contiguous(), perplexity


def main(compiled):
    encoder, vq, decoder = nn.Conv2d(1, 3, 4, 2, 1), VectorQuantizer(5, 3, 0.25), nn.ConvTranspose2d(3, 1, 4, 2, 1)
    model = fill(torch, nn.ModuleList([encoder, vq, decoder]), scale=1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=False)

    def step(data):
        optimizer.zero_grad()
        vq_loss, quantized, perplexity = vq(encoder(data))
        recon_error = F.mse_loss(decoder(quantized), data) / 0.5
        loss = recon_error + vq_loss
        loss.backward()
        optimizer.step()
        return recon_error, perplexity

    step = torch.compile(step) if compiled else step
    return [v.item() for i in range(12) for v in step(torch.tensor(numbers(4, 1, 8, 8, seed=i)))]
