"""Clipped policy ratios with generalised advantages, normal actions, entropy, several epochs per batch."""

import torch
import torch.nn as nn
from torch.distributions import Normal

from common import fill, numbers


class ActorCritic(nn.Module):
    def __init__(self, num_inputs, num_outputs, hidden, std=0.0):
        super(ActorCritic, self).__init__()
        self.critic = nn.Sequential(nn.Linear(num_inputs, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.actor = nn.Sequential(nn.Linear(num_inputs, hidden), nn.ReLU(), nn.Linear(hidden, num_outputs))
        self.log_std = nn.Parameter(torch.ones(1, num_outputs) * std)

    def forward(self, x):
        value, mu = self.critic(x), self.actor(x)
        std = self.log_std.exp().expand_as(mu)
        return Normal(mu, std), value


def compute_gae(next_value, rewards, masks, values, gamma=0.99, tau=0.95):
    values = values + [next_value]
    gae, returns = 0, []
    for step in reversed(range(len(rewards))):
        delta = rewards[step] + gamma * values[step + 1] * masks[step] - values[step]
        gae = delta + gamma * tau * masks[step] * gae
        returns.insert(0, gae + values[step])
    return returns


def main(compiled):
    model = fill(torch, ActorCritic(3, 2, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def update(state, action, old_log_probs, return_, advantage, clip_param=0.2):
        dist, value = model(state)
        entropy = dist.entropy().mean()
        new_log_probs = dist.log_prob(action)
        ratio = (new_log_probs - old_log_probs).exp()
        surr1 = ratio * advantage
        surr2 = torch.clamp(ratio, 1.0 - clip_param, 1.0 + clip_param) * advantage
        actor_loss = -torch.min(surr1, surr2).mean()
        critic_loss = (return_ - value).pow(2).mean()
        loss = 0.5 * critic_loss + actor_loss - 0.001 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    update = torch.compile(update) if compiled else update
    out = []
    for i in range(3):
        states, actions = torch.tensor(numbers(6, 3, seed=i)), torch.tensor(numbers(6, 2, seed=10 + i))
        with torch.no_grad():
            dist, values = model(states)
            log_probs = dist.log_prob(actions)
            returns = compute_gae(
                values[-1], [torch.tensor([float(k)]).double() for k in range(6)], [1.0] * 5 + [0.0], list(values)
            )
        returns = torch.cat(returns).detach().unsqueeze(1)
        advantages = returns - values
        for _ in range(4):
            out.append(update(states, actions, log_probs, returns, advantages).item())
    return out
