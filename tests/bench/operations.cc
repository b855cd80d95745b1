#include "operations.h"

#include <algorithm>
#include <vector>

namespace normalcrafter::bench {
namespace {

int divided_up(int count, int by) {
  return (count + by - 1) / by;
}

/// A product of [rows, depth] with [depth, columns].
double product(double rows, double depth, double columns) {
  return 2 * rows * depth * columns;
}

}  // namespace

Work& Work::operator+=(const Work& other) {
  direct += other.direct;
  performed += other.performed;
  bytes += other.bytes;
  return *this;
}

Work operator+(Work a, const Work& b) {
  return a += b;
}

Work operator*(int times, Work work) {
  return {times * work.direct, times * work.performed, times * work.bytes};
}

// --- layers --------------------------------------------------------------------------------------

Work Operations::convolution(const Grid& out_grid, int in, int out, int stride) const {
  const double pixels = out_grid.pixels();
  Work work = linear(pixels, 9 * in, out);
  // The input is read once, not once for each of the nine taps.
  work.bytes += methods_.element_size * pixels * in * (stride * stride - 9);
  if (stride == 1 && methods_.winograd(in, out)) {
    const int tile = methods_.winograd_tile(out_grid, in, out);
    const double tiles = static_cast<double>(out_grid.frames) * divided_up(out_grid.height, tile) *
                         divided_up(out_grid.width, tile);
    work.performed = (tile + 2) * (tile + 2) * product(tiles, in, out);
  }
  return work;
}

Work Operations::upsample_convolution(const Grid& grid, int channels) const {
  const Grid doubled{grid.frames, 2 * grid.height, 2 * grid.width};
  Work work = convolution(doubled, channels, channels);
  work.bytes -= methods_.element_size * (doubled.pixels() - grid.pixels()) * channels;
  return work;
}

Work Operations::temporal_convolution(const Grid& grid, int channels) const {
  Work work = linear(grid.pixels(), 3 * channels, channels);
  work.bytes -= methods_.element_size * grid.pixels() * channels * 2;  // as above
  if (methods_.temporal_winograd(channels)) {
    const double tiles = static_cast<double>(divided_up(grid.frames, 4)) * grid.height * grid.width;
    work.performed = 6 * product(tiles, channels, channels);
  }
  return work;
}

Work Operations::linear(double rows, int in, int out) const {
  const double operations = product(rows, in, out);
  const double weights = static_cast<double>(in) * out;
  return {operations, operations, methods_.element_size * (rows * in + rows * out + weights)};
}

Work Operations::elementwise(double read, double written) const {
  return {0, 0, methods_.element_size * (read + written)};
}

Work Operations::attention(double batch, double queries, double keys, int channels) const {
  const double operations = 2 * batch * product(queries, channels, keys);
  return {operations, operations,
          methods_.element_size * batch * channels * (2 * queries + 2 * keys)};
}

Work Operations::self_attention(double batch, double tokens, int channels) const {
  const double rows = batch * tokens;
  return linear(rows, channels, 3 * channels) + attention(batch, tokens, tokens, channels) +
         linear(rows, channels, channels);
}

// The softmax over one key is 1: the engine needs neither queries nor keys.
Work Operations::single_token_cross_attention(double rows, double contexts, double different,
                                              int channels, int context_channels) const {
  Work work = linear(different, context_channels, channels) +
              linear(different, channels, channels) + elementwise(rows * channels, rows * channels);
  work.direct = 2 * product(rows, channels, channels) +
                2 * product(contexts, context_channels, channels) + 2 * product(rows, channels, 1);
  return work;
}

// --- blocks --------------------------------------------------------------------------------------

Work Operations::resnet(const Grid& grid, int in, int out, int time_channels) const {
  const double pixels = grid.pixels();
  Work work = elementwise(pixels * in, pixels * in) + convolution(grid, in, out) +
              elementwise(pixels * out, pixels * out) + convolution(grid, out, out) +
              elementwise(pixels * out, 0);
  if (in != out) work += linear(pixels, in, out);
  // The published code projects the embedding of each frame; the engine folds it into a bias.
  work.direct += product(time_channels > 0 ? grid.frames : 0, time_channels, out);
  return work;
}

Work Operations::spatio_temporal_resnet(const Grid& grid, int in, int out,
                                        int time_channels) const {
  const double size = grid.pixels() * out;
  Work work = resnet(grid, in, out, time_channels) +
              2 * (elementwise(size, size) + temporal_convolution(grid, out)) +
              elementwise(size, 0);
  work.direct += product(time_channels > 0 ? grid.frames : 0, time_channels, out);
  return work;
}

Work Operations::feed_forward(double rows, int channels) const {
  return elementwise(rows * channels, rows * channels) + linear(rows, channels, 8 * channels) +
         elementwise(8 * rows * channels, 4 * rows * channels) +
         linear(rows, 4 * channels, channels) + elementwise(rows * channels, 0);
}

Work Operations::transformer(const Grid& grid, const UNetConfig::Level& level) const {
  const int c = level.channels;
  const double rows = grid.pixels();
  const double frames = grid.frames;
  const double positions = rows / frames;
  const Work norm = elementwise(rows * c, rows * c);
  const Work residual = elementwise(rows * c, 0);
  const Work spatial =
      norm + self_attention(frames, positions, c) + residual +
      single_token_cross_attention(rows, frames, frames, c, level.cross_attention_dim) +
      feed_forward(rows, c);
  // Every position has the first frame's token.
  const Work temporal =
      feed_forward(rows, c) + norm + self_attention(positions, frames, c) + residual +
      single_token_cross_attention(rows, positions, 1, c, level.cross_attention_dim) +
      feed_forward(rows, c);
  const Work frame_embedding = linear(frames, c, 4 * c) + linear(frames, 4 * c, c);
  const Work blend = elementwise(3 * rows * c, 2 * rows * c);
  return norm + linear(rows, c, c) + frame_embedding +
         level.transformer_layers * (spatial + temporal + blend) + linear(rows, c, c) + residual;
}

Work Operations::vae_attention(const Grid& grid, int channels) const {
  const double size = grid.pixels() * channels;
  return elementwise(size, size) +
         self_attention(grid.frames, grid.pixels() / grid.frames, channels) + elementwise(size, 0);
}

// --- networks ------------------------------------------------------------------------------------

Work Operations::clip(const ClipVisionConfig& config, int frames) const {
  const int grid = config.image_size / config.patch_size;
  const int hidden = config.hidden_size;
  const double tokens = 1 + grid * grid;
  const double size = frames * tokens * hidden;
  const auto layer = [&](double queries) {
    const double rows = frames * queries;
    return elementwise(size, size) + linear(frames * tokens, hidden, 3 * hidden) +
           attention(frames, queries, tokens, hidden) + linear(rows, hidden, hidden) +
           elementwise(2 * rows * hidden, rows * hidden) +
           linear(rows, hidden, config.intermediate_size) +
           elementwise(rows * config.intermediate_size, rows * config.intermediate_size) +
           linear(rows, config.intermediate_size, hidden) + elementwise(rows * hidden, 0);
  };
  Work last = layer(1);  // only the class token's result is read
  last.direct = layer(tokens).direct;
  return linear(frames * (tokens - 1), 3 * config.patch_size * config.patch_size, hidden) +
         elementwise(2 * size, size) + (config.num_hidden_layers - 1) * layer(tokens) + last +
         linear(frames, hidden, config.projection_dim);
}

Work Operations::vae_encode(const TemporalVaeConfig& config, const Grid& pictures) const {
  const auto& channels = config.block_out_channels;
  const int moments = 2 * config.latent_channels;
  Grid grid = pictures;
  Work work = convolution(grid, config.in_channels, channels.front());
  for (std::size_t i = 0; i < channels.size(); ++i) {
    for (int layer = 0; layer < config.layers_per_block; ++layer)
      work += resnet(grid, layer == 0 && i > 0 ? channels[i - 1] : channels[i], channels[i], 0);
    if (i + 1 == channels.size()) break;
    grid = grid.shrunk(2);
    work += convolution(grid, channels[i], channels[i], 2);
  }
  const int last = channels.back();
  return work + 2 * resnet(grid, last, last, 0) + vae_attention(grid, last) +
         elementwise(grid.pixels() * last, grid.pixels() * last) +
         convolution(grid, last, moments) + linear(grid.pixels(), moments, moments);
}

Work Operations::vae_decode(const TemporalVaeConfig& config, const Grid& latents) const {
  const auto& channels = config.block_out_channels;
  const int last = channels.back();
  Grid grid = latents;
  Work work =
      convolution(grid, config.latent_channels, last) + spatio_temporal_resnet(grid, last, last);
  // Of further layers nothing runs: one attention is published, and diffusers zips the two lists.
  if (config.layers_per_block > 1)
    work += vae_attention(grid, last) + spatio_temporal_resnet(grid, last, last);
  for (std::size_t i = channels.size(); i-- > 0;) {
    const int before = i + 1 < channels.size() ? channels[i + 1] : last;
    for (int layer = 0; layer <= config.layers_per_block; ++layer)
      work += spatio_temporal_resnet(grid, layer == 0 ? before : channels[i], channels[i]);
    if (i == 0) break;
    work += upsample_convolution(grid, channels[i]);
    grid = {grid.frames, 2 * grid.height, 2 * grid.width};
  }
  const double size = grid.pixels() * channels.front();
  return work + elementwise(size, size) + convolution(grid, channels.front(), config.out_channels) +
         temporal_convolution(grid, config.out_channels);
}

Work Operations::unet(const UNetConfig& config, const Grid& latents) const {
  const auto& levels = config.levels;
  const int last = static_cast<int>(levels.size()) - 1;
  const int time = 4 * levels.front().channels;
  std::vector<Grid> grids;
  for (int i = 0; i <= last; ++i) grids.push_back(latents.shrunk(1 << i));

  Work work = convolution(latents, config.in_channels, levels.front().channels);
  // The embedding of the one time step, which the engine makes when it loads.
  work.direct += product(1, levels.front().channels, time) + 2 * product(1, time, time) +
                 product(1, config.projection_class_embeddings_input_dim, time);
  for (int i = 0; i <= last; ++i) {
    const auto& level = levels[i];
    for (int layer = 0; layer < level.layers; ++layer) {
      const int in = layer == 0 ? levels[std::max(i - 1, 0)].channels : level.channels;
      work += spatio_temporal_resnet(grids[i], in, level.channels, time);
      if (level.down_has_attention) work += transformer(grids[i], level);
    }
    if (i < last) work += convolution(grids[i + 1], level.channels, level.channels, 2);
  }
  work +=
      2 * spatio_temporal_resnet(grids[last], levels[last].channels, levels[last].channels, time) +
      transformer(grids[last], levels[last]);
  for (int i = last; i >= 0; --i) {
    const auto& level = levels[i];
    for (int layer = 0; layer <= level.layers; ++layer) {
      const int below = layer == 0 ? levels[std::min(i + 1, last)].channels : level.channels;
      // The last skip is the level above's output.
      const int skip = layer == level.layers ? levels[std::max(i - 1, 0)].channels : level.channels;
      const double joined = grids[i].pixels() * (below + skip);
      work += elementwise(joined, joined) +
              spatio_temporal_resnet(grids[i], below + skip, level.channels, time);
      if (level.up_has_attention) work += transformer(grids[i], level);
    }
    if (i > 0) work += upsample_convolution(grids[i], level.channels);
  }
  const double size = latents.pixels() * levels.front().channels;
  return work + elementwise(size, size) +
         convolution(latents, levels.front().channels, config.out_channels);
}

}  // namespace normalcrafter::bench
